"""Helpers of analysis tests: configurations, and checks of reports."""

import json

from matplotlib.figure import Figure

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
    """Checks the tables of a report and returns name -> drawn plot."""
    for table in report.tables:
        assert {len(row) for row in table.rows} == {len(table.header)}
    drawn = {name: Figure().subplots() for name in report.plots}
    for name, axes in drawn.items():
        report.plots[name](axes)
        axes.figure.canvas.draw()
    return drawn


def write_lines(path, rows):
    """Writes objects as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
