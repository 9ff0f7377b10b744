import dataclasses
import json

import numpy as np
import pytest

from electra_tf.analysis.reporting import reports
from electra_tf.analysis.reporting.reports import Report, Table
from electra_tf.analysis.reporting.statistics import Interval
from electra_tf.util import plotting

REPORT = Report(
    what="rerank",
    headline={"rate": np.float32(0.5)},
    results={
        "interval": Interval(0.5, 0.25, float("nan")),
        "array": np.arange(3),
        "nested": [{"number": np.int64(3)}, ("text", None)],
    },
    tables=[Table("A title.", ("name", "n", "rate"), [("a|b", 1234, 0.05)])],
    plots={"line": lambda axes: axes.plot([1, 2], [3, 4])},
)
CONTENT = {"model": {"step": 7}, "versions": {}}


def _report(*table):
    return Report(what="x", headline={}, results={}, tables=[Table(*table)])


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.00"),
        (0.05, "0.0500"),
        (12.345, "12.3"),
        (-3, "-3"),
        (100.0, "100"),
        (12345.6, "12,346"),
        (np.int64(12345), "12,345"),
        (np.float32(0.25), "0.250"),
        ("text", "text"),
    ],
)
def test_numbers_show_three_significant_digits_or_all_integer_ones(
    number, text
):
    report = _report("T.", ("a", "b"), [("row", number)])
    assert reports.as_text(report).splitlines()[-1].split() == ["row", text]


def test_the_files_hold_figures_tables_and_plots(tmp_path):
    directory = tmp_path / "new" / "out"
    reports.write(REPORT, str(directory), CONTENT)
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["line.png", "report.json", "report.md"]
    stored = json.loads((directory / "report.json").read_text("utf-8"))
    assert stored == {
        "what": "rerank",
        "headline": {"rate": 0.5},
        "results": {
            "interval": {"value": 0.5, "low": 0.25, "high": None},
            "array": [0, 1, 2],
            "nested": [{"number": 3}, ["text", None]],
        },
        **CONTENT,
    }
    text = (directory / "report.md").read_text("utf-8")
    for part in ("# rerank", "- step: 7", r"a\|b | 1,234", "![line.png]"):
        assert part in text
    assert (directory / "line.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_a_warning_says_how_to_have_plots(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(plotting, "is_available", lambda: False)
    reports.write(REPORT, str(tmp_path), CONTENT)
    assert "pip install" in capsys.readouterr().err
    assert not [*tmp_path.glob("*.png")]
    assert ".png" not in (tmp_path / "report.md").read_text("utf-8")


def test_no_line_of_a_grid_lies_on_an_image(tmp_path):
    drawn = []
    plots = {
        "lines": lambda axes: drawn.append(axes),
        "image": lambda axes: drawn.append(axes.imshow(np.eye(2)).axes),
    }
    report = dataclasses.replace(REPORT, plots=plots)
    reports.write(report, str(tmp_path), CONTENT)
    shown = [[x.get_visible() for x in a.get_ygridlines()] for a in drawn]
    assert all(shown[0]) and not any(shown[1])


def test_long_titles_are_broken_for_terminals():
    report = _report("word " * 40, ("a",), [("b",)])
    assert max(map(len, reports.as_text(report).splitlines())) < 80
