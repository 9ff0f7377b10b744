"""Words and tags are found in lines of columns."""

import pytest

from electra_tf.data.formats import conll
from electra_tf.data.formats.conll import Columns
from electra_tf.data.formats.rows import Line


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
