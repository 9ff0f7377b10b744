import importlib.util

from electra_tf.util import plotting


def test_intervals_are_drawn_from_end_to_end_a_row_each():
    axes = plotting.make_figure(4, 3).subplots()
    series = {"one": [(2, 1, 4), (5, 5, 6)], "two": [(3, 3, 3), (1, 0, 2)]}
    plotting.draw_intervals(axes, ["a", "b"], series)
    for container, triples in zip(
        axes.containers, series.values(), strict=True
    ):
        line, _, (bars,) = container
        assert [*line.get_xdata()] == [value for value, _, _ in triples]
        ends = [[*segment[:, 0]] for segment in bars.get_segments()]
        assert ends == [[low, high] for _, low, high in triples]
        rows = [segment[0, 1] for segment in bars.get_segments()]
        assert [round(row) for row in rows] == [0, 1]
    assert [x.get_text() for x in axes.get_yticklabels()] == ["a", "b"]
    assert axes.yaxis_inverted()  # the first row is on top
    labels = [x.get_text() for x in axes.get_legend().get_texts()]
    assert labels == ["one", "two"]


def test_a_missing_package_is_noticed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not plotting.is_available()


def test_labels_may_have_dollar_signs_and_rows_may_be_none():
    axes = plotting.make_figure(4, 3).subplots()
    plotting.draw_intervals(axes, ["cost_$5_$10"], {"one": [(2, 1, 4)]})
    axes.figure.canvas.draw()
    plotting.draw_intervals(plotting.make_figure(4, 3).subplots(), [], {})
