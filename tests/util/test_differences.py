"""Differences are named, each under its kind, and not too many of them."""

from electra_tf.util import differences


def test_equal_shapes_give_no_text():
    assert differences.of_shapes({"a": (2,)}, {"a": [2]}) == ""


def test_each_kind_has_its_line():
    text = differences.of_shapes(
        {"a": (2,), "b": (1, 3), "c": ()},
        {"b": [1, 4], "c": (), "d": (5,)},
        unexpected="too many",
    )
    assert text == (
        "\n  missing: a"
        "\n  too many: d"
        "\n  of another shape: b [1, 4], expected [1, 3]"
    )


def test_long_lists_end_with_how_many_more():
    names = [f"n{i}" for i in range(12)]
    assert differences.listed(names[:10]).endswith("n8, n9")
    assert differences.listed(names).endswith("n8, n9 and 2 more")
