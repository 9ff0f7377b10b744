"""The report of a study: its means, intervals and differences."""

import dataclasses
import json
import math

import numpy as np
import pytest
import studies
import study_report
from markdown_tables import cells
from study_results import Results
from tiny_study import TEXT

from electra_tf.analysis.reporting.statistics import Interval
from electra_tf.util import plotting
from electra_tf.util.errors import UserError

T_975 = {2: 12.7062047, 3: 4.30265273}
"""Student's t, 97.5 %, by the number of values (tables)."""


def run(study, arm, seed, scores, seconds=100.0):
    run = study.runs(arm, 1e-3)[seed]
    shares = ("0.25", "0.5", "1.0")
    return {
        "run": run.name,
        "arm": arm,
        "seed": seed,
        "learning_rate": 1e-3,
        "fingerprint": run.fingerprint,
        "num_train_steps": run.num_train_steps,
        "training_flops": 1e12,
        "training_seconds": seconds,
        "gate": None if arm == "mlm" else 0.8,
        "held_out": {"loss": 1.0, "masked_lm_loss": 4.0},
        "probes": {"chunks": dict(zip(shares, scores, strict=True))},
        "vocabulary": "a",
        "versions": {"electra_tf": "0"},
        "cpu": "one",
    }


@pytest.fixture
def study(tmp_path):
    text = TEXT.replace("[1e-3, 2e-3]", '[1e-3]\nprobes = ["chunks"]')
    (tmp_path / "which.toml").write_text(text)
    return studies.read_study(tmp_path / "which.toml")


@pytest.fixture
def found(study):
    return {
        "mlm": [
            run(study, "mlm", 0, (0.5, 0.6, 0.70)),
            run(study, "mlm", 1, (0.5, 0.6, 0.74)),
        ],
        "electra": [
            run(study, "electra", 0, (0.6, 0.7, 0.80), seconds=200.0),
            run(study, "electra", 1, (0.6, 0.7, 0.82), seconds=200.0),
        ],
    }


@pytest.mark.parametrize("values", [(1.0, 2.0), (1.0, 2.0, 6.0)])
def test_interval_is_students(values):
    found = study_report.interval(values)
    half = T_975[len(values)] * np.std(values, ddof=1) / len(values) ** 0.5
    mean = np.mean(values)
    np.testing.assert_allclose(found, (mean, mean - half, mean + half), 1e-6)


def test_single_seed_has_no_interval():
    found = study_report.interval([3.0])
    assert (found.value, math.isnan(found.low)) == (3.0, True)
    assert study_report._shown(found) == "3.000"
    points = Interval(-12.345, -16.789, -7.901)
    assert study_report._shown(points) == "-12.3 [-16.8, -7.9]"


def test_costs_are_means_over_seeds_and_the_worst_gate(study, found):
    other = {"loss": 1.0, "masked_lm_loss": 6.0}
    found["electra"][0] |= {"gate": 0.9, "training_seconds": 300.0}
    found["electra"][1]["held_out"] = other
    half = T_975[2] * 1.0
    mlm, electra = cells(study_report.costs(found))
    steps = [f"{runs[0]['num_train_steps']:,}" for runs in found.values()]
    assert mlm == [
        *("mlm", "2", "0.001", steps[0], "1e+12", "100", "-"),
        *("4.000 [4.000, 4.000]", "-", "-"),
    ]
    assert electra == [
        *("electra", "2", "0.001", steps[1], "1e+12", "250", "0.900"),
        *(f"5.000 [{5 - half:.3f}, {5 + half:.3f}]", "-", "-"),
    ]


def test_differences_are_of_the_same_seed(study, found):
    table = study_report.probe_table(study, found, study_report.over_baseline)
    # 0.10 and 0.08: mean 0.09, standard error 0.01.
    half = T_975[2] * 0.01
    assert cells(table) == [
        ["mlm", "0.000 [0.000, 0.000]"],
        ["electra", f"0.090 [{0.09 - half:.3f}, {0.09 + half:.3f}]"],
    ]


def test_at_equal_seconds_a_slower_arm_is_read_where_the_baseline_ends(
    study, found
):
    # At 100 of its 200 seconds ELECTRA is at 0.7, for both seeds.
    score = study_report.over_baseline_in_time
    pairs = zip(found["electra"], found["mlm"], strict=True)
    differences = [score(one, other, "chunks") for one, other in pairs]
    np.testing.assert_allclose(differences, [0.0, -0.04], atol=1e-12)


def test_seconds_of_two_processors_are_not_compared(study, found):
    found["mlm"][0]["cpu"] = "another"
    score = study_report.over_baseline_in_time
    pair = found["electra"][0], found["mlm"][0]
    assert score(*pair, "chunks") is None
    assert study_report.over_baseline(*pair, "chunks") == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("seconds", "score"),
    [(200 / 2**0.5, 0.75), (201, 0.80), (50, 0.6), (49, None)],
    ids=["between two", "after the last", "at the first", "before it"],
)
def test_between_checkpoints_scores_are_linear_in_log_seconds(
    study, found, seconds, score
):
    found["mlm"][0]["training_seconds"] = seconds
    difference = study_report.over_baseline_in_time(
        found["electra"][0], found["mlm"][0], "chunks"
    )
    assert difference == (score and pytest.approx(score - 0.70))


def test_a_score_of_the_end_alone_has_none_at_equal_seconds(study, found):
    one, other = found["electra"][0], found["mlm"][0]
    for record in (one, other):
        record["probes"]["chunks"] = {"1.0": 0.5}
        record["training_seconds"] = 100.0
    assert study_report.over_baseline_in_time(one, other, "chunks") is None
    assert study_report.over_baseline(one, other, "chunks") == 0


def test_arm_without_a_score_has_a_dash(study, found):
    for record in found["electra"]:
        record["probes"] = {}
    for score in study_report.SCORES.values():
        table = study_report.probe_table(study, found, score)
        assert cells(table)[1] == ["electra", "-"]


def test_cell_says_how_many_runs_it_is_the_mean_of(study, found):
    found["electra"][1]["probes"] = {}  # over the gate
    table = study_report.probe_table(study, found, study_report.at_end)
    complete, partial = (row[1] for row in cells(table))
    assert partial == "0.800 (1 of 2)"
    assert "of" not in complete


def test_runs_on_several_texts_are_not_compared(study, found, tmp_path):
    for record in found["electra"]:
        record["vocabulary"] = "b"
    lines = [json.dumps(record) for runs in found.values() for record in runs]
    path = tmp_path / "which.jsonl"
    path.write_text("\n".join(lines) + "\n")
    config = study_report.StudyReportConfig(
        study=str(path.with_suffix(".toml"))
    )
    with pytest.raises(UserError, match="a of which_mlm_1, b of which_electra"):
        study_report.main(config)


def test_arm_of_other_records_may_have_another_vocabulary(study, found):
    for record in found["electra"]:
        record["vocabulary"] = "b"
    study = dataclasses.replace(study, own_records=("electra",))
    study_report._check_text(study, found, "which.jsonl")


def test_results_of_other_settings_do_not_count(study, found, tmp_path):
    results = Results(tmp_path / "which.jsonl")
    results.records = [record for runs in found.values() for record in runs]
    first, second = found["mlm"]
    second["fingerprint"] = "other"
    assert study_report.records(study, results) == found | {"mlm": [first]}
    first["fingerprint"] = "other"
    assert [*study_report.records(study, results)] == ["electra"]


def test_an_arm_counts_once_all_its_rates_were_tried(study, found, tmp_path):
    study = dataclasses.replace(study, learning_rates=(1e-3, 2e-3))
    results = Results(tmp_path / "which.jsonl")
    results.records = [record for runs in found.values() for record in runs]
    for arm in study.arms:
        for trial in study.trials(arm):
            assert arm not in study_report.records(study, results)
            values = {
                "run": trial.name,
                "fingerprint": trial.fingerprint,
                "learning_rate": trial.learning_rate,
                "held_out": {"loss": trial.learning_rate},
                "gate": None,
            }
            results.records.append({**found[arm][0], **values})
        assert len(study_report.records(study, results)[arm]) == 2


def test_any_arm_can_be_the_one_to_compare_with(study, found, tmp_path, capsys):
    lines = [json.dumps(record) for runs in found.values() for record in runs]
    path = tmp_path / "others.jsonl"
    path.write_text("\n".join(lines) + "\n")
    study_report.main(
        study_report.StudyReportConfig(
            study=str(tmp_path / "which.toml"),
            results=str(path),
            baseline="electra",
        )
    )
    _, _, printed = capsys.readouterr().out.partition("Above electra, at equal")
    mlm = printed.splitlines()[4]
    assert mlm.split()[1:4:2] == ["mlm", "-0.090"]


def test_plots_show_the_available_scores(study, found, tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        plotting, "save", lambda figure, path: drawn.update({path.name: figure})
    )
    for record in found["mlm"]:
        record["probes"]["parts_of_speech"] = {"1.0": 0.7}
    probes = ("chunks", "parts_of_speech", "sst")
    study = dataclasses.replace(study, probes=probes)
    study_report._draw(study, found, tmp_path)
    assert drawn.keys() == {
        "which_chunks.png",
        "which_chunks_flops.png",
        "which_chunks_seconds.png",
        "which_parts_of_speech.png",  # no curve: probed only at the end
    }
    lines = drawn["which_chunks_seconds.png"].axes[0].get_lines()
    assert list(lines[2].get_xdata()) == [50, 100, 200]
    assert list(lines[2].get_ydata()) == [0.6, 0.7, 0.80]
    (bars,) = drawn["which_chunks.png"].axes[0].containers
    assert list(bars.lines[0].get_xdata()) == pytest.approx([0.72, 0.81])


def test_curves_show_every_arm(found):
    arms = {f"arm {number}": found["mlm"] for number in range(14)}
    figure = plotting.make_figure(6, 3.6)
    axes = figure.add_subplot()
    study_report._draw_curves(arms, "chunks", "FLOPs", "chunks", axes)
    looks = {line.get_label(): _look(line) for line in axes.get_lines()}
    assert looks.keys() >= arms.keys()
    assert len({looks[arm] for arm in list(arms)[:12]}) == 12


def _look(line):
    return line.get_color(), line.get_linestyle(), line.get_marker()
