"""Running a study: order of runs, reuse of results, and lines of results."""

import dataclasses
import hashlib
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import studies
import study
import study_results
from tiny_study import TEXT

from electra_tf.util import files
from electra_tf.util.errors import DirectoryInUseError, ExitCode, UserError

SMALL = """
--vocab_size=60
--max_seq_length=32
--max_position_embeddings=32
--held_out_fraction=0.1
--hidden_size=16
--num_hidden_layers=1
--num_attention_heads=2
--embedding_size=16
--generator_num_attention_heads=1
--train_batch_size=8
--eval_batch_size=8
--num_samples=0
--nodo_export
"""


class Trained:
    """Fakes the commands: writes their output files.

    Attributes:
      names: names of the trained runs, in order.
      probed: steps of the probed checkpoints.
      disc_loss: loss of runs with a discriminator, to which the rate is added.
      flags: the flags of the last command that have a value.
      threads: its number of threads.
    """

    def __init__(self):
        self.names, self.probed, self.disc_loss = [], [], 0.2

    def __call__(self, log, threads, module, *flags):
        values = dict(flag[2:].split("=", 1) for flag in flags if "=" in flag)
        self.flags, self.threads = values, threads
        if module != "electra_tf.run_pretraining":
            self.probed.append(values["model"].rpartition("-")[2])
            report = pathlib.Path(values["output_dir"]) / "report.json"
            files.write_json(report, {"score": 0.5})
            return
        self.names.append(values["model_name"])
        directory = pathlib.Path(values["data_dir"]) / "models"
        directory /= values["model_name"]
        if directory.exists():
            return
        (directory / "results").mkdir(parents=True)
        rate = float(values["learning_rate"])
        metrics = {"loss": abs(rate - 2e-3), "training_flops": 5}
        if "electra" in values["model_name"]:
            loss = self.disc_loss + rate
            metrics |= {"disc_loss": loss, "replaced_share": 0.1}
        files.write_json(directory / "results/pretraining_eval.json", metrics)
        (directory.parents[1] / "vocab.txt").write_text("[PAD]")
        lines = [(1, 1.0), *((x, 30.0) for x in range(2, 9)), (100, 64.0)]
        text = "".join(
            json.dumps({"step": step, "sequences_per_second": speed}) + "\n"
            for step, speed in lines
        )
        (directory / "metrics.jsonl").write_text(text)


@pytest.fixture
def trained(monkeypatch):
    trained = Trained()
    monkeypatch.setattr(study, "_call", trained)
    probe = studies.Probe(
        what="",
        command=("probe", "--model={model}", "--output_dir={output}"),
        report="{output}/report.json",
        value=("score",),
    )
    monkeypatch.setattr(
        studies, "read_probes", lambda names: {"score": probe} if names else {}
    )
    return trained


@pytest.fixture
def config(tmp_path):
    text = TEXT.replace("[arms]", 'probes = ["score"]\n[arms]')
    (tmp_path / "which.toml").write_text(text)
    return study.StudyConfig(
        study=str(tmp_path / "which.toml"),
        data_dir=str(tmp_path / "data"),
        probe_data=str(tmp_path),
    )


def lines(config):
    text = config.results_path.read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_trials_come_first_then_all_arms_seed_by_seed(config, trained):
    study.main(config)
    names = [name.rpartition("_")[0] for name in trained.names]
    assert names == [
        "which_mlm_rate_0.001",
        "which_mlm_rate_0.002",
        "which_electra_rate_0.001",
        "which_electra_rate_0.002",
        "which_mlm_0",
        "which_electra_0",
        "which_mlm_1",
        "which_electra_1",
    ]
    for line in lines(config):
        wanted = 0.125e12 if line["is_trial"] else 1e12
        difference = abs(line["training_flops"] - wanted)
        assert 0 < difference <= wanted / line["num_train_steps"] / 2
    rates = {x["arm"]: x["learning_rate"] for x in lines(config)}
    assert rates == {"mlm": 2e-3, "electra": 1e-3}  # by its loss, by its gate


def test_two_jobs_read_the_corpus_on_half_of_the_cores_each(
    config, trained, monkeypatch
):
    monkeypatch.setattr(study.console, "num_cores", lambda: 7)
    config = dataclasses.replace(config, probe_data="", jobs=2, corpus="a*.txt")
    study.main(config)
    assert (trained.threads, trained.flags["corpus"]) == (3, "a*.txt")
    assert trained.flags["data_dir"] == config.data_dir
    assert not trained.probed  # without data


def test_nothing_is_run_twice(config, trained):
    study.main(config)
    written, num_runs = config.results_path.read_text(), len(trained.names)
    study.main(config)
    assert len(trained.names) == num_runs
    assert config.results_path.read_text() == written


def test_second_job_begins_once_the_first_trains(config, trained, monkeypatch):
    has_second_started, started = threading.Event(), []

    def finish(run, *_):
        started.append(run.name)
        if len(started) == 2:
            return has_second_started.set()
        assert not has_second_started.wait(0.3)  # the data are being built
        model_dir = study._model_dir(run, config)
        model_dir.mkdir(parents=True)
        (model_dir / "metrics.jsonl").touch()
        assert has_second_started.wait(60)

    monkeypatch.setattr(study, "_train_and_probe", finish)
    runs = studies.read_study(config.study).runs("mlm", 1e-3)
    both = dataclasses.replace(config, jobs=2)
    study._complete_all(
        runs, both, {}, study_results.Results(both.results_path)
    )
    assert started == [run.name for run in runs]


def test_arm_of_other_records_has_a_directory_of_its_own(config, trained):
    path = pathlib.Path(config.study)
    path.write_text('own_records = ["electra"]' + path.read_text())
    study.main(config)
    root = pathlib.Path(config.data_dir)
    for models, arm in (
        (root / "models", "mlm"),
        (root / "data_of_electra/models", "electra"),
    ):
        names = {name.name.split("_")[1] for name in models.iterdir()}
        assert names == {arm}
    assert (root / "data_of_electra/vocab.txt").exists()


def test_second_job_also_waits_for_records_of_an_arm(
    config, trained, monkeypatch
):
    path = pathlib.Path(config.study)
    path.write_text('own_records = ["electra"]' + path.read_text())
    manifest = pathlib.Path(config.data_dir, study._MANIFEST)
    manifest.parent.mkdir(parents=True)
    manifest.touch()  # the records of the other arm exist
    started, has_second_started = [], threading.Event()

    def finish(run, *_):
        started.append(run.name)
        if len(started) == 2:
            return has_second_started.set()
        assert not has_second_started.wait(0.3)
        return None

    monkeypatch.setattr(study, "_train_and_probe", finish)
    runs = studies.read_study(config.study).runs("electra", 1e-3)
    both = dataclasses.replace(config, jobs=2)
    results = study_results.Results(both.results_path)
    study._complete_all(runs, both, {}, results)
    assert started == [run.name for run in runs]


def test_no_run_begins_after_one_that_failed(config, trained, monkeypatch):
    started = []

    def fail(run, *_):
        started.append(run.name)
        raise SystemExit(4)

    monkeypatch.setattr(study, "_train_and_probe", fail)
    manifest = pathlib.Path(config.data_dir, study._MANIFEST)
    manifest.parent.mkdir(parents=True)
    manifest.touch()  # so that none waits for the first
    with pytest.raises(SystemExit):
        study.main(config)
    assert len(started) == 1


def test_stopped_study_goes_on_with_what_is_missing(config, trained):
    study.main(config)
    kept = config.results_path.read_text().splitlines(keepends=True)[:-2]
    config.results_path.write_text("".join(kept))
    before = len(trained.names)
    for name in trained.names:
        (pathlib.Path(config.data_dir) / "models" / name).rename(
            pathlib.Path(config.data_dir) / name
        )
    study.main(config)
    names = [name.rpartition("_")[0] for name in trained.names[before:]]
    assert names == ["which_mlm_1", "which_electra_1"]


def test_line_of_other_settings_is_named_and_its_run_made_again(
    config, trained, capsys
):
    study.main(config)
    path = pathlib.Path(config.study)
    path.write_text(path.read_text().replace("1e12", "2e12"))
    study.main(config)
    assert len(trained.names) == 16 == len(set(trained.names))
    warning = "ignored a line of which_mlm_0, from version"
    assert warning in capsys.readouterr().err
    study.main(config)
    assert len(trained.names) == 16
    assert "ignored" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("vocabulary", "score", "num_reused"),
    [("same", 0.5, 4), ("another", 0.5, 0), ("same", None, 2)],
)
def test_equal_runs_of_another_study_are_reused(
    config, trained, vocabulary, score, num_reused
):
    study.main(config)
    other = pathlib.Path(config.study).with_name("other.toml")
    text = pathlib.Path(config.study).read_text()
    other.write_text(text.replace("electra = ", "corrupted = "))
    found = lines(config)
    found = [x for x in found if x["arm"] == "electra"]
    for record in found:
        if vocabulary == "another":
            record["vocabulary"] = "0"
        if score is None:
            record["probes"] = {}
    text = "".join(json.dumps(record) + "\n" for record in found)
    config.results_path.write_text(text)
    trained.names.clear()
    config = dataclasses.replace(config, study=str(other))
    study.main(config)
    assert len(trained.names) == 8 - num_reused
    expected = ["corrupted"] * 4 + ["mlm"] * 4
    assert sorted(record["arm"] for record in lines(config)) == expected


def test_a_line_names_the_vocabulary_that_its_tokenizer_reads(config, trained):
    path = pathlib.Path(config.study)
    path.write_text('flags = ["--tokenizer=sentencepiece"]' + path.read_text())
    model = pathlib.Path(config.data_dir) / "spm.model"
    model.parent.mkdir()
    model.write_bytes(b"pieces")
    study.main(config)
    digest = hashlib.sha256(b"pieces").hexdigest()
    assert {line["vocabulary"] for line in lines(config)} == {digest[:16]}


def test_a_line_names_the_vocabulary_that_its_flags_give(
    config, trained, tmp_path
):
    vocabulary, path = tmp_path / "words.txt", pathlib.Path(config.study)
    vocabulary.write_text("words")
    path.write_text(f'flags = ["--vocab_file={vocabulary}"]' + path.read_text())
    study.main(config)
    digest = hashlib.sha256(b"words").hexdigest()
    assert {line["vocabulary"] for line in lines(config)} == {digest[:16]}


def test_a_model_of_another_study_gets_the_probes_that_its_line_lacks(
    config, trained
):
    path = pathlib.Path(config.study)
    text = path.read_text()
    path.write_text(text.replace('probes = ["score"]', "probes = []"))
    study.main(config)
    before = {line["fingerprint"]: line for line in lines(config)}
    models = {*trained.names}
    other = path.with_name("other.toml")
    other.write_text(text)
    config = dataclasses.replace(config, study=str(other))
    study.main(config)
    assert {*trained.names} == models  # nothing is trained under a new name
    for line in lines(config):
        old = before[line["fingerprint"]]
        names = {"run": line["run"], "arm": line["arm"]}
        assert line["run"].startswith("other_")
        has_score = bool(line["probes"].pop("score", None))
        assert has_score != line["is_trial"]
        assert {**old, **names} == line


def test_equal_runs_of_another_study_are_reused_as_trials(config, trained):
    study.main(config)
    path = pathlib.Path(config.study)
    longer = path.with_name("longer.toml")
    text = path.read_text().replace("1e12", "4e12").replace("[0, 1]", "[0]")
    longer.write_text("search_share = 0.25\n" + text)
    trained.names.clear()
    study.main(dataclasses.replace(config, study=str(longer)))
    names = [name.rpartition("_")[0] for name in trained.names]
    assert names == [
        "longer_mlm_rate_0.001",
        "longer_electra_rate_0.002",
        "longer_mlm_0",
        "longer_electra_0",
    ]
    results = config.results_path.with_name("longer.jsonl")
    found = study_results.read_lines(results)
    assert sum(record["is_trial"] for record in found) == 4


def test_trained_runs_are_probed_along_the_curve(config, trained):
    path = pathlib.Path(config.study)
    path.write_text(path.read_text().replace("1e12", "1.008e12"))
    study.main(config)
    run = studies.read_study(path).runs("mlm", 2e-3)[0]
    steps = run.num_train_steps
    assert steps % 4 == 3  # the next update is the nearest to a quarter
    assert trained.probed[:3] == [f"{steps // 4 + 1}", "118", f"{steps}"]
    assert {steps // 4 + 1, 118} <= run.config.milestones
    for line in lines(config):
        scores = {"0.25": 0.5, "0.5": 0.5, "1.0": 0.5}
        assert line["probes"] == ({} if line["is_trial"] else {"score": scores})


def test_each_command_has_its_report_and_its_best_layer(
    config, trained, monkeypatch
):
    calls = []

    def call(log, threads, module, *flags):
        if module != "measure":
            return trained(log, threads, module, *flags)
        which, output, *places = flags
        calls.append(places)
        scores = {"a": [0.2, 0.7], "b": [0.9, 0.1]}[which]
        return files.write_json(output, {"layers": scores})

    places = ("{model}", "{model_name}", "{data_dir}", "{data}")
    probes = {
        name: studies.Probe(
            what="",
            command=("measure", name, "{output}/report.json", *places),
            report="{output}/report.json",
            value=("layers",),
            at_end=True,
        )
        for name in ("a", "b")
    }
    monkeypatch.setattr(study, "_call", call)
    monkeypatch.setattr(studies, "read_probes", lambda names: probes)
    path = pathlib.Path(config.study)
    path.write_text('own_records = ["electra"]' + path.read_text())
    study.main(config)
    for line in lines(config):
        if not line["is_trial"]:
            assert line["probes"] == {"a": {"1.0": 0.7}, "b": {"1.0": 0.9}}
            assert line["choices"] == {"a": {"layer": 1}, "b": {"layer": 0}}
    root = pathlib.Path(config.data_dir)
    for model, name, data_dir, data in calls:
        is_own = "_electra_" in name
        assert data_dir == str(root / ("data_of_electra" if is_own else ""))
        assert model.startswith(f"{data_dir}/models/{name}/model.ckpt-")
        assert data == config.probe_data


def test_a_probe_of_some_arms_is_run_on_these_alone(
    config, trained, monkeypatch
):
    (score,) = studies.read_probes(["score"]).values()
    score = dataclasses.replace(score, arms=("electra",))
    monkeypatch.setattr(studies, "read_probes", lambda names: {"score": score})
    study.main(config)
    for line in lines(config):
        is_probed = line["arm"] == "electra" and not line["is_trial"]
        assert bool(line["probes"]) == is_probed


def test_probe_added_later_uses_the_existing_models(
    config, trained, monkeypatch
):
    study.main(config)
    before, num_probed = lines(config), len(trained.probed)
    (score,) = studies.read_probes(["score"]).values()
    other = dataclasses.replace(
        score, command=(*score.command, "--other"), at_end=True
    )
    later = {"score": score, "other": other, "of the same": other}
    monkeypatch.setattr(studies, "read_probes", lambda names: later)
    study.main(config)
    # Probes of one command share a call, and existing scores are kept.
    num_runs = sum(not line["is_trial"] for line in before)
    assert len(trained.probed) == num_probed + num_runs
    after = {line["run"]: line for line in lines(config)}
    assert len(after) == len(before)
    for line in before:
        if not line["is_trial"]:
            line["probes"] |= dict.fromkeys(
                later.keys() - {"score"}, {"1.0": 0.5}
            )
        assert after[line["run"]] == line
    text = config.results_path.read_text()
    study.main(config)
    assert config.results_path.read_text() == text


def test_fine_tuning_tries_its_rates_with_one_trial_and_the_best_with_all(
    config, trained, monkeypatch
):
    calls = []

    def call(log, threads, module, *flags):
        if module != "tune":
            return trained(log, threads, module, *flags)
        calls.append(flags[0])
        score = {"0.0003 1": 0.6, "0.001 1": 0.8, "0.001 3": 0.7}[flags[0]]
        return files.write_json(flags[1], {"score": score})

    tuned = studies.Probe(
        what="",
        command=(
            "tune",
            "{learning_rate} {num_trials}",
            "{output}/report.json",
        ),
        report="{output}/report.json",
        value=("score",),
        at_end=True,
        learning_rates=(3e-4, 1e-3),
        num_trials=3,
    )
    monkeypatch.setattr(study, "_call", call)
    monkeypatch.setattr(studies, "read_probes", lambda names: {"tuned": tuned})
    study.main(config)
    runs = [line for line in lines(config) if not line["is_trial"]]
    assert [line["probes"] for line in runs] == 4 * [{"tuned": {"1.0": 0.7}}]
    assert calls == 4 * ["0.0003 1", "0.001 1", "0.001 3"]
    choices = [line["choices"] for line in runs]
    assert choices == 4 * [{"tuned": {"learning_rate": 1e-3}}]


def test_a_second_study_with_the_same_results_is_refused(config, trained):
    path = config.results_path
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.lock_directory(path.parent, f"{path.name}.lock"):
        with pytest.raises(DirectoryInUseError, match="another --results"):
            study.main(config)
    assert not path.exists()


def test_probe_that_fails_leaves_the_scores_made_before_it(
    config, trained, monkeypatch
):
    (score,) = studies.read_probes(["score"]).values()
    bad = dataclasses.replace(score, value=("nonesuch",))
    probes = {"score": score, "bad": bad}
    monkeypatch.setattr(studies, "read_probes", lambda names: probes)
    with pytest.raises(KeyError, match="nonesuch"):
        study.main(config)
    (last,) = (line for line in lines(config) if not line["is_trial"])
    assert last["probes"].keys() == {"score"}


def test_discriminator_that_learnt_nothing_is_not_probed(
    config, trained, capsys
):
    trained.disc_loss = 0.324  # and the rate; 0.1 has an entropy of 0.325083
    study.main(config)
    for line in lines(config):
        is_probed = line["arm"] == "mlm" and not line["is_trial"]
        assert bool(line["probes"]) == is_probed
    assert "which_electra_1: not probed, its gate is 1.000" in (
        capsys.readouterr().err
    )
    num_runs = len(trained.names)
    study.main(config)
    assert len(trained.names) == num_runs


def test_only_a_gate_over_095_or_nan_keeps_a_run_from_its_probes():
    gates = (None, 0.95, 0.951, math.nan)
    assert [study._is_probed(x) for x in gates] == [True, True, False, False]


def test_an_energy_based_model_has_no_gate(config, trained):
    path = pathlib.Path(config.study)
    flagfile = "configs/ablations/electr"
    path.write_text(
        path.read_text().replace(f"{flagfile}a.cfg", f"{flagfile}ic.cfg")
    )
    trained.disc_loss = 0.5  # above the entropy of a tenth
    study.main(config)
    for line in lines(config):
        assert line["gate"] is None
        assert bool(line["probes"]) != line["is_trial"]


def test_gate_is_the_loss_over_the_entropy_of_the_share():
    share, logits = 0.2, np.log(0.2 / 0.8)
    losses = np.logaddexp(0, -logits), np.logaddexp(0, logits)
    chance = share * losses[0] + (1 - share) * losses[1]
    for factor in (0.5, 1.0):
        held_out = {"disc_loss": factor * chance, "replaced_share": share}
        assert study_results.share_of_entropy(held_out) == pytest.approx(factor)
    assert study_results.share_of_entropy({"masked_lm_loss": 3.0}) is None
    for share in (0.0, 1.0):
        certain = {"disc_loss": 0.0, "replaced_share": share}
        assert study_results.share_of_entropy(certain) == 1.0


def test_training_seconds_leave_out_tracing(config, trained):
    study.main(config)
    # 100 updates of 32 rows; ninth decile of nine: 30 + 0.2 x 34 rows/s.
    seconds = lines(config)[0]["training_seconds"]
    assert math.isclose(seconds, 3200 / 36.8)
    only_line = [{"step": 3, "sequences_per_second": 4.0}]
    assert study_results.training_seconds(only_line, 8) == 6


@pytest.mark.parametrize("vocabulary", ["[UNK]", None])
def test_results_for_one_text_are_no_answer_for_another(
    config, trained, vocabulary
):
    study.main(config)
    written, num_runs = config.results_path.read_text(), len(trained.names)
    other_dir = config.results_path.parent / "other"
    other_dir.mkdir()
    if vocabulary:
        (other_dir / "vocab.txt").write_text(vocabulary)
    own = dataclasses.replace(config, data_dir=str(other_dir))
    other = dataclasses.replace(own, results=str(config.results_path))
    with pytest.raises(UserError, match=r"Received: which_mlm.*--results"):
        study.main(other)
    assert config.results_path.read_text() == written
    assert len(trained.names) == num_runs
    study.main(own)
    assert len(trained.names) == 2 * num_runs
    assert (other_dir / "studies/which.jsonl").exists()


def test_another_machine_goes_on_with_the_vocabulary_of_the_results(
    config, trained
):
    study.main(config)
    kept = config.results_path.read_text().splitlines(keepends=True)[:-1]
    config.results_path.write_text("".join(kept))
    num_runs, other_dir = len(trained.names), config.results_path.parent / "b"
    other_dir.mkdir()
    vocabulary = pathlib.Path(config.data_dir, "vocab.txt").read_bytes()
    (other_dir / "vocab.txt").write_bytes(vocabulary)
    results = str(config.results_path)
    study.main(
        dataclasses.replace(config, data_dir=str(other_dir), results=results)
    )
    assert len(trained.names) == num_runs + 1


def test_directory_of_results_is_made_before_the_first_run(
    config, trained, tmp_path
):
    directory = tmp_path / "new" / "results"
    study.main(dataclasses.replace(config, results=str(directory / "a.jsonl")))
    assert (directory / "a.jsonl").exists()
    trained.names.clear()
    (tmp_path / "file").touch()
    bad = dataclasses.replace(config, results=str(tmp_path / "file/a.jsonl"))
    with pytest.raises(UserError, match="must be a directory"):
        study.main(bad)
    assert not trained.names


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"run"', "line 2 must be a JSON object"),
        ("[1]", "line 2 must be a JSON object"),
        ('{"run": "a"}', "line 2 must be the result of a run"),
    ],
)
def test_line_that_is_no_result_is_named(config, trained, line, message):
    study.main(config)
    first, *_ = config.results_path.read_text().splitlines()
    config.results_path.write_text(f"{first}\n{line}\n")
    with pytest.raises(UserError, match=rf"which\.jsonl, {message}"):
        study.main(config)


@pytest.mark.slow
def test_the_command_trains_and_the_report_reads_it(tmp_path):
    flags, places = _write_small_study(tmp_path, training_flops="2e9")
    outputs = [_call("study.py", *flags, *places) for _ in range(2)]
    assert [output.count("which_") for output in outputs] == [2, 0]
    results = tmp_path / "studies/which.jsonl"
    assert len(results.read_text().splitlines()) == 2
    report = _call("study_report.py", *flags, places[0])
    assert f"Results: {results}" in report
    rows = [line.split() for line in report.splitlines() if line[:1] == "|"]
    assert {"mlm", "electra"} <= {row[1] for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_command_alone_ends_its_training(tmp_path, number):
    flags, places = _write_small_study(tmp_path, training_flops="1e15")
    command = _start("study.py", *flags, *places)
    while not [*tmp_path.glob("models/*/metrics.jsonl")]:
        assert command.poll() is None
        time.sleep(0.1)
    command.send_signal(number)
    _, errors = command.communicate(timeout=60)
    assert command.returncode == ExitCode.STOPPED_BY_SIGNAL
    assert "give the same command to resume" in errors
    [log] = tmp_path.glob("logs/*.log")
    assert "Stopped by a signal; the checkpoint of" in log.read_text()


def _write_small_study(directory, training_flops):
    """Returns the flags of a study, and those of its files."""
    documents = [f"a{i % 7} b{i % 5} c{i % 3} d e f g. " * 9 for i in range(99)]
    (directory / "corpus.txt").write_text("\n\n".join(documents))
    (directory / "small.cfg").write_text(SMALL)
    text = TEXT.replace(
        "configs/studies/two_cores.cfg", f"{directory}/small.cfg"
    )
    text = text.replace("1e12", training_flops).replace("[0, 1]", "[0]")
    (directory / "which.toml").write_text(text.replace(", 2e-3]", "]"))
    places = [f"--data_dir={directory}", f"--corpus={directory}/corpus.txt"]
    return [f"--study={directory}/which.toml"], places


def _start(tool, *flags):
    return subprocess.Popen(
        [sys.executable, studies.ROOT / "tools/replication" / tool, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(studies.ROOT)},
    )


def _call(tool, *flags):
    command = _start(tool, *flags)
    output, errors = command.communicate()
    assert command.returncode == 0, errors + output
    return output
