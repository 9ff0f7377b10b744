"""Studies: equal cost, fingerprints of runs, refused files, probes."""

import dataclasses
import json
import tomllib

import pytest
import studies
import study_results
from tiny_study import TEXT

from electra_tf import flops_computation
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.util.errors import UserError
from electra_tf.util.flags import parse_flags

PROBE = {"what": "", "command": (), "report": "", "value": ("scores",)}
SHIPPED = sorted((studies.ROOT / "configs/studies").glob("*.toml"))
STUDIES = [path for path in SHIPPED if path != studies.PROBES]


@pytest.fixture
def study(tmp_path):
    (tmp_path / "which.toml").write_text(TEXT)
    return studies.read_study(tmp_path / "which.toml")


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_arm_of_a_shipped_study_is_a_configuration(path):
    study = studies.read_study(path)
    for arm in study.arms:
        assert study.runs(arm, 1e-3)[0].config.optimizer.learning_rate == 1e-3


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_arms_of_a_shipped_study_cost_the_same(path):
    study = studies.read_study(path)
    studies.read_probes(study.probes)
    for arm in study.arms.keys() - set(study.first_weights):
        config = study.runs(arm, 1e-3)[0].config
        whole = flops_computation.config_flops(
            config, sparse_embed_lookup=True
        )["whole run"]
        assert whole == pytest.approx(study.training_flops, rel=1e-3)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_results_of_a_shipped_study_are_of_its_settings(path, monkeypatch):
    """Else the report would leave out what the documents cite."""
    study = studies.read_study(path)
    results = study_results.Results(path.with_suffix(".jsonl"))
    last = {(x["arm"], x["is_trial"]): x for x in results.records}
    for line in last.values():
        version = line["versions"]["electra_tf"]
        monkeypatch.setattr(studies.electra_tf, "__version__", version)
        rate = results.learning_rate(study, line["arm"])
        assert line["is_trial"] or line["learning_rate"] == rate
        run = studies.Run(
            study=study,
            arm=line["arm"],
            seed=line["seed"],
            learning_rate=line["learning_rate"],
            share=study.search_share if line["is_trial"] else 1.0,
        )
        kept = ("run", "fingerprint", "num_train_steps", "training_flops")
        assert [line[name] for name in kept] == [
            run.name,
            run.fingerprint,
            run.num_train_steps,
            studies.count_flops(run.config),
        ]


def test_trial_has_its_share_of_the_flops(study):
    trial, whole = study.trials("mlm")[0], study.runs("mlm", 1e-3)[0]
    steps = study.search_share * whole.num_train_steps
    assert trial.num_train_steps == pytest.approx(steps, abs=1)
    assert trial.seed == study.seeds[0]


def test_a_budget_below_an_update_is_one_update(study):
    study = dataclasses.replace(study, training_flops=1.0)
    assert study.runs("mlm", 1e-3)[0].num_train_steps == 1


def test_warm_up_has_its_share_of_the_updates(study):
    for share in (0.05, 0.2):
        run = dataclasses.replace(study, warmup_share=share).runs("mlm", 1)[0]
        warmup = run.config.optimizer.num_warmup_steps
        assert warmup == pytest.approx(share * run.num_train_steps, abs=0.5)


def test_runs_of_a_seed_differ_by_arm_alone(study):
    one, other = (study.runs(arm, 1e-3)[1].config for arm in study.arms)
    assert one.training.seed == other.training.seed == 1
    assert one.corpus == other.corpus
    assert one.masking == other.masking


def test_study_of_one_rate_has_no_trials(study):
    assert (
        dataclasses.replace(study, learning_rates=(1e-3,)).trials("mlm") == []
    )


def test_arm_of_first_weights_has_one_update_and_no_curve(study):
    study = dataclasses.replace(study, first_weights=("mlm",))
    (run, _), probe = study.runs("mlm", 1e-3), studies.Probe(**PROBE)
    assert study.trials("mlm") == []
    assert run.num_train_steps == 1
    assert run.config.optimizer.num_warmup_steps == 1  # whose rate is 0
    assert run.shares_probed(probe) == (1.0,)
    assert study.runs("electra", 1e-3)[0].shares_probed(probe) == studies.CURVE


def test_fingerprint_tells_settings_and_version(study, monkeypatch):
    run = study.runs("electra", 1e-3)[0]
    others = [
        dataclasses.replace(run, seed=1),
        dataclasses.replace(run, learning_rate=2e-3),
        dataclasses.replace(run, arm="mlm"),
    ]
    prints = {run.fingerprint, *(other.fingerprint for other in others)}
    assert len(prints) == 4
    monkeypatch.setattr(studies.electra_tf, "__version__", "9.9")
    assert dataclasses.replace(run).fingerprint not in prints


def test_a_flag_at_its_default_makes_no_other_run(study):
    run = study.runs("electra", 1e-3)[0]
    given = dataclasses.replace(study, flags=("--mask_prob=0.15",))
    other = dataclasses.replace(study, flags=("--mask_prob=0.2",))
    arms = {"electra": (*study.arms["electra"], "--mask_prob=0.15")}
    undone = dataclasses.replace(other, arms={**study.arms, **arms})
    for same in (given, undone):
        assert same.runs("electra", 1e-3)[0].fingerprint == run.fingerprint
    assert other.runs("electra", 1e-3)[0].fingerprint != run.fingerprint


@pytest.mark.parametrize(
    ("flag", "is_same"),
    [("--eval_batch_size=16", True), ("--num_eval_steps=2", False)],
)
def test_of_runtime_only_how_much_is_evaluated_makes_another_run(
    study, flag, is_same
):
    run = study.runs("electra", 1e-3)[0]
    other = dataclasses.replace(study, flags=(flag,)).runs("electra", 1e-3)[0]
    assert (other.fingerprint == run.fingerprint) == is_same


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('baseline = "mlm"', 'baseline = "bert"', "one of its arms, mlm"),
        ("seeds = [0, 1]", "seeds = []", "one or more different numbers"),
        ("seeds = [0, 1]", "seeds = [1, 1]", "one or more different numbers"),
        ("seeds = [0, 1]", "seeds = 1", "one or more different numbers"),
        ("seeds = [0, 1]", 'seeds = ["a"]', "one or more different numbers"),
        ("1e12", "0", "`training_flops` must be positive"),
        ("1e12", '"1e12"', "`training_flops` must be positive"),
        *(
            ("--objective=mlm", f"--{name}=7", "what a study decides")
            for name in (
                "seed",
                "learning_rate",
                "num_train_steps",
                "num_warmup_steps",
            )
        ),
        ("seeds", "seed", "unknown seed, seeds"),
        ("[arms]", "[arms", "a file of TOML"),
        ("1e12", "1e12\nsearch_share = 2", "between 0 and 1"),
        ("1e12", "1e12\nwarmup_share = 0", "between 0 and 1"),
        ("[arms]", 'flags = ["-seed=7"]\n[arms]', "what a study decides"),
        ("1e12", '1e12\nfirst_weights = ["a"]', "be of its arms"),
        ("1e12", '1e12\nown_records = ["a"]', "`own_records` of bad must be"),
    ],
)
def test_bad_study_is_refused_by_name(tmp_path, old, new, message):
    path = tmp_path / "bad.toml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(UserError, match=message) as error:
        studies.read_study(path)
    assert "bad" in str(error.value)


@pytest.mark.parametrize("name", tomllib.loads(studies.PROBES.read_text()))
def test_flags_of_a_shipped_probe_are_of_its_command(name):
    ((found, probe),) = studies.read_probes([name]).items()
    assert found == name
    places = ("model_name", "data_dir", "data", "output")
    values = dict.fromkeys(places, "a") | {"model": "checkpoint"}
    values |= {"learning_rate": 1e-3, "num_trials": probe.num_trials}
    module, *flags = (part.format(**values) for part in probe.command)
    read = {flag.partition("=")[2] for flag in flags}
    assert probe.at_end or "checkpoint" in read  # each checkpoint its score
    config_class = {
        "electra_tf.analyze": AnalysisConfig,
        "electra_tf.run_finetuning": FinetuningConfig,
    }[module]
    parse_flags(config_class, flags)


def test_unknown_probe_is_refused():
    with pytest.raises(UserError, match="Received: nonesuch"):
        studies.read_probes(["nonesuch"])


@pytest.mark.parametrize(
    ("report", "score", "layer"),
    [
        ({"scores": 0.5}, 0.5, None),
        ({"scores": {"value": 0.25, "low": 0.9}}, 0.25, None),
        ({"scores": [{"value": 0.2}, {"value": 0.7}, {"value": 0.5}]}, 0.7, 1),
    ],
)
def test_probe_reads_a_figure_or_the_best_layer(report, score, layer):
    probe = studies.Probe(**PROBE)
    report = json.loads(json.dumps(report))
    assert (probe.read(report), probe.layer(report)) == (score, layer)


def test_probe_reads_the_layer_that_its_path_names():
    probe = studies.Probe(**{**PROBE, "value": ("scores", -1)})
    report = {"scores": [{"value": 0.2}, {"value": 0.7}, {"value": 0.5}]}
    assert (probe.read(report), probe.layer(report)) == (0.5, None)
