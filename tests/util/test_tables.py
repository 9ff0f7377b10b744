from electra_tf.util import tables

ROWS = [["", "a", "long"], ["first", "12", "3"]]


def test_numbers_are_aligned_to_the_right_and_notes_follow():
    assert tables.aligned(ROWS, ["", "note"]) == (
        "        a  long\nfirst  12     3  note\n"
    )


def test_markdown_keeps_bars_inside_their_cells():
    text = tables.markdown([["a", "b"], ["x|y", "1"]])
    assert text == "| a | b |\n| --- | ---: |\n| x\\|y | 1 |\n"
