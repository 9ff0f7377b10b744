"""Intervals against their definitions, and the files of a report."""

import json
import math

import golden_weights
import numpy as np
import pytest
from tiny_analysis import config

from electra_tf import analyze
from electra_tf.analysis import report
from electra_tf.analysis.report import Interval, Plot, Report, Table
from electra_tf.checkpoint import bundles


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (7.5, 9), (5, 5)])
def test_wilson_bounds_lie_1_96_standard_errors_from_the_share(
    successes, trials
):
    """Its definition: |share - p| = z sqrt(p (1 - p) / n) at both ends."""
    found = report.wilson(successes, trials)
    assert found.value == successes / trials
    for end in found[1:]:
        error = math.sqrt(max(end * (1 - end), 0) / trials)
        distance = abs(found.value - end)
        assert distance == pytest.approx(1.959964 * error, abs=1e-9)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_the_bootstrap_of_a_mean_is_near_the_normal_interval():
    values = np.random.default_rng(3).normal(size=400)
    found, shifted = report.bootstrap(
        lambda i: [values[i].mean(), values[i].mean() + 1],
        400,
        config(num_resamples=1000, seed=1),
    )
    half = 1.96 * values.std() / math.sqrt(400)
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.2 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.2 * half)
    np.testing.assert_allclose(np.subtract(shifted, found), 1)


def test_a_report_is_printed_and_written_if_asked(
    tmp_path, monkeypatch, capsys
):
    model = tmp_path / "model.ckpt-10"
    bundles.write(model, golden_weights.read("small_like").arrays)
    found = Report(
        results={
            "interval": Interval(0.5, 0.25, float("nan")),
            "array": np.arange(3),
            "nested": [{"number": np.int64(3)}, ("text", None)],
        },
        tables=[
            Table("A title.", {"a": {"n": 1234, "the_rate": 0.05}}),
            Table(
                "Digits.",
                {
                    "b": {"n": np.int64(3), "of": Interval(0.5, 0.25, 0.75)},
                    "c": {"rate": 12345.6, "array": np.arange(3), "of": None},
                },
                digits=1,
            ),
        ],
        plots={"line": Plot({"x": np.ones((3, 2))}, "x", "y")},
    )
    monkeypatch.setattr("electra_tf.analysis.rerank.run", lambda _: found)
    analyze.main(config(model=str(model)))
    assert "A title." in capsys.readouterr().out
    output = tmp_path / "new/out"
    analyze.main(config(model=str(model), output_dir=str(output)))
    stored = json.loads((output / "report.json").read_text("utf-8"))
    assert stored["what"] == "rerank"
    assert stored["results"] == {
        "interval": {"value": 0.5, "low": 0.25, "high": None},
        "array": [0, 1, 2],
        "nested": [{"number": 3}, ["text", None]],
    }
    assert stored["model"]["checkpoint"] == str(model)
    assert stored["config"]["test"] == ["t"]
    assert {"electra_tf", "tensorflow"} <= stored["versions"].keys()
    text = (output / "report.md").read_text("utf-8")
    for part in (
        *("|  | n | the rate |", "| a | 1,234 | 0.0500 |"),
        *("|  | n | of | rate |", "| b | 3 | 0.5 [0.2, 0.8] |  |"),
        "| c |  |  | 12,346 |",
    ):
        assert part in text
    assert (output / "line.png").read_bytes().startswith(b"\x89PNG")
