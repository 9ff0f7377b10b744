"""Helpers of analysis tests: configurations, and checks of reports."""

import json

from electra_tf.config.analysis import AnalysisConfig


def config(*test, **fields):
    """Returns an analysis configuration; `test` defaults to the file "t"."""
    defaults = {
        "what": "rerank",
        "model": "m",
        "test": tuple(map(str, test)) or ("t",),
        "num_resamples": 100,
    }
    return AnalysisConfig(**{**defaults, **fields})


def draw(report):
    """Formats the tables of a report, and draws its plots."""
    for table in report.tables:
        assert len({len(row) for row in table.cells()}) == 1
    for plot in report.plots.values():
        assert plot.png().startswith(b"\x89PNG")


def write_lines(path, rows):
    """Writes objects as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
