"""Words and tags are found in lines of columns."""

import pytest

from electra_tf.data.formats import conll
from electra_tf.data.formats.conll import Columns
from electra_tf.data.formats.rows import BadRowError, Line


@pytest.mark.parametrize("blank", ["\u00a0", "\u202f", "\u3000"])
@pytest.mark.parametrize("between", [" ", "  ", "\t", " \t \t"])
def test_only_ascii_spaces_and_tabs_separate_columns(blank, between):
    for text in (f"10{blank}000", f"{blank}x", f"x{blank}", blank):
        line = Line(1, f" {text}{between}NUM \r")
        assert conll.word(line, Columns()) == (1, text, "NUM")
        assert conll.word(line, Columns(word=1, tag=0)) == (1, "NUM", text)


def test_words_between_tabs_keep_their_spaces():
    word = conll.word(Line(7, "New York \t\t B-X"), Columns())
    assert word == (7, "New York", "B-X")


def test_an_empty_cell_is_no_tag_and_no_word():
    columns = Columns(word=1, tag=2, separator="\t")
    for blank in ("", " "):
        found = conll.word(Line(3, f"1\tfilm\t{blank}\tx"), columns)
        assert found == (3, "film", None)
        with pytest.raises(BadRowError, match="word in column 2.*'1.*NOUN"):
            conll.word(Line(3, f"1\t{blank}\tNOUN"), columns)
    with pytest.raises(BadRowError, match="word in column 1"):
        conll.word(Line(3, "\tNOUN\tB-X"), Columns(separator="\t"))


def test_spaces_around_a_cell_belong_to_no_word_and_no_tag():
    columns = Columns(separator="\t")
    assert conll.word(Line(3, "New York \t B-X"), columns) == (
        3,
        "New York",
        "B-X",
    )
