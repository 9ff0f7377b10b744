import json

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cbook import is_math_text

from electra_tf.finetune.run import plots
from electra_tf.finetune.run.report import Confusion

CURVES = [
    plots.Curve(1, {1: 90.0, 10: 2.0, 20: 1.0}, {10: 60.0, 20: 80.0}),
    plots.Curve(2, {1: 80.0, 10: 3.0, 20: 1.5}, {10: 85.0, 20: 70.0}),
    plots.Curve(3, {1: 80.0, 10: 3.0, 20: 1.5}, {10: 50.0, 20: 50.0}),
]


def test_a_curve_is_what_the_trial_has_logged(tmp_path):
    lines = [
        {"step": 1, "t_loss": 3.0, "loss": 3.5},
        {"step": 5, "other_loss": 9.0},
        {"step": 9, "t_loss": 2.0},
        {"step": 9, "t_loss": 1.0},  # once more, after a resume
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    content = b'{"step": 5, "t_lo\n\xff\n' + text.encode() + b'{"step": 2'
    (tmp_path / "metrics.jsonl").write_bytes(content)
    evaluations = [{"step": 9, "metrics": {"dev": {"f1": 50.0}}}]
    path = tmp_path / "evaluations.json"
    path.write_text(json.dumps(evaluations), "utf-8")
    curve = plots.read_curve(tmp_path, 4, "t", "f1", "dev")
    assert curve == (4, {1: 3.0, 9: 1.0}, {9: 50.0})
    assert plots.read_curve(tmp_path, 4, "t", "f1").values == {}
    assert plots.read_curve(tmp_path / "no", 4, "t", "f1", "dev").losses == {}


def test_every_trial_has_a_line_and_the_best_one_is_marked():
    figure = plots.draw_curves("t", "f1", CURVES, 2)
    losses, values = figure.axes
    assert losses.get_yscale() == "log" and values.get_yscale() == "linear"
    for axes, name in ((losses, "losses"), (values, "values")):
        found = [(*line.get_xdata(),) for line in axes.lines]
        assert found == [(*getattr(CURVES[0], name),)] * 3
        last = axes.lines[-1]  # over the others
        assert [*last.get_ydata()] == [*getattr(CURVES[1], name).values()]
        assert last.get_linewidth() > axes.lines[0].get_linewidth()
    labels = [text.get_text() for text in values.get_legend().get_texts()]
    assert labels == ["other trials", "trial 2, the best"]
    assert [text.get_text() for text in values.texts] == ["85.0"]


def test_without_evaluations_there_are_losses_alone(tmp_path):
    curves = [curve._replace(values={}) for curve in CURVES]
    figure = plots.draw_curves("t", "f1", curves, None)
    assert len(figure.axes) == 1
    path = tmp_path / "results" / "t.png"
    plots._save(figure, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_cells_show_counts_and_shares_of_their_rows():
    counts = np.array([[3, 1], [0, 0]])
    one = Confusion("t", "dev", 1, ("yes", "no"), counts)
    figure = plots.draw_confusions([one, one._replace(split="other")])
    assert len(figure.axes) == 2
    axes = figure.axes[0]
    cells = {x.get_position(): x.get_text() for x in axes.texts}
    assert cells == {
        (0.5, 0.5): "3\n75 %",
        (1.5, 0.5): "1\n25 %",
        (0.5, 1.5): "0",
        (1.5, 1.5): "0",
    }
    assert axes.yaxis_inverted()  # the first label is the first row
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == ["yes", "no"]


LONG = (
    "request for a refund of an order that has not arrived",
    "request for a refund of an order that came too late",
    "question about the opening hours of a shop",
)


def _overlaps(axes):
    """Returns whether x labels overlap each other or leave the figure."""
    figure = axes.figure
    FigureCanvasAgg(figure).draw()
    labels = axes.get_xticklabels()
    boxes = [label.get_window_extent() for label in labels]
    if any(b.x0 < 0 or b.y0 < 0 or b.x1 > figure.bbox.width for b in boxes):
        return True
    if labels[0].get_rotation():  # parallel lines, this far from each other
        gap = (boxes[1].x1 - boxes[0].x1) * np.sin(np.pi / 4)
        return gap < labels[0].get_fontsize() * figure.dpi / 72
    return any(a.x1 >= b.x0 for a, b in zip(boxes, boxes[1:], strict=False))


@pytest.mark.parametrize(
    "labels",
    [
        ("0", "1"),
        ("entailment", "neutral", "contradiction"),
        LONG,
        tuple(f"label number {i}" for i in range(12)),
        tuple(f"{i}" for i in range(30)),
        tuple(f"{i} {LONG[i % 3]} {i}" for i in range(30)),
    ],
    ids=["two", "three", "long", "twelve", "thirty", "thirty long"],
)
def test_labels_do_not_run_into_each_other(labels):
    counts = np.diag(np.arange(1, len(labels) + 1))
    one = Confusion("t", "dev", 1, labels, counts)
    figure = plots.draw_confusions([one])
    (axes,) = figure.axes
    assert not _overlaps(axes)
    shown = [text.get_text() for text in axes.get_xticklabels()]
    assert len({*shown}) == len(labels) and max(map(len, shown)) <= 32
    assert shown == [text.get_text() for text in axes.get_yticklabels()]
    assert max(figure.get_size_inches()) < 20


def test_dollars_of_labels_are_no_math():
    labels = ("$5 or $6", "less")
    counts = np.eye(2, dtype=int)
    figure = plots.draw_confusions([Confusion("t", "dev", 1, labels, counts)])
    shown = figure.axes[0].get_xticklabels()[0].get_text()
    assert is_math_text(labels[0]) and not is_math_text(shown)
    assert shown.replace("\\", "") == labels[0]


def test_cells_of_many_labels_show_counts_over_zero_alone():
    counts = np.diag(np.arange(30)) + 7 * np.eye(30, k=1, dtype=int)
    labels = tuple(map(str, range(30)))
    figure = plots.draw_confusions([Confusion("t", "dev", 1, labels, counts)])
    cells = {x.get_position(): x.get_text() for x in figure.axes[0].texts}
    assert cells[3.5, 3.5] == "3" and cells[4.5, 3.5] == "7"
    assert cells[0.5, 0.5] == "" and cells[9.5, 1.5] == ""
