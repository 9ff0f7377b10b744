import math

import numpy as np

from electra_tf.analysis.reporting import curves, reports
from electra_tf.analysis.reporting.curves import Point
from electra_tf.util import plotting

POINTS = [
    Point(10, 1e12, 0.1, True, {"rate (%)": 3.0}),
    Point(50, 5e12, 0.5, False, {"rate (%)": math.nan, "other": 1.0}),
    Point(100, 1e13, 1.0, False, {"rate (%)": 2.0, "other": 4.0}),
]


def test_a_row_is_a_checkpoint_and_the_last_one_is_the_headline():
    report = curves.report("rerank", POINTS)
    assert report.headline == POINTS[-1].headline
    rows = [x.split("  ") for x in reports.as_text(report).splitlines()[-3:]]
    rows = [[cell.strip() for cell in row if cell] for row in rows]
    assert rows == [
        ["10 *", "10 %", "1.000e+12", "3.00", "nan"],
        ["50", "50 %", "5.000e+12", "nan", "1.00"],
        ["100", "100 %", "1.000e+13", "2.00", "4.00"],
    ]


def test_each_figure_has_a_curve_over_flops_with_its_milestones():
    report = curves.report("rerank", POINTS)
    assert list(report.plots) == ["curve_rate", "curve_other"]
    axes = plotting.make_figure(4, 3).subplots()
    report.plots["curve_rate"](axes)
    assert axes.get_xscale() == "log"
    line, milestone = axes.lines
    assert [*line.get_xdata()] == [1e12, 5e12, 1e13]
    np.testing.assert_equal([*line.get_ydata()], [3.0, math.nan, 2.0])
    assert [*milestone.get_xdata()] == [1e12]
    assert [text.get_text() for text in axes.texts] == ["10 %"]
