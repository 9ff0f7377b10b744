import pytest

from electra_tf.analysis.scoring import text_blocks
from electra_tf.util.errors import UserError


def test_blocks_are_limited_in_texts_and_characters(monkeypatch):
    monkeypatch.setattr(text_blocks, "MAX_TEXTS", 3)
    monkeypatch.setattr(text_blocks, "MAX_CHARACTERS", 10)
    texts = ["a"] * 4 + ["b" * 50, "c" * 9, "d" * 9, "e"]
    found = list(text_blocks.blocks(iter(texts)))
    assert [text for block in found for text in block] == texts
    assert [len(block) for block in found] == [3, 2, 2, 1]


def test_texts_are_read_when_they_are_needed(monkeypatch):
    monkeypatch.setattr(text_blocks, "MAX_TEXTS", 2)
    read = []
    texts = (read.append(i) or "x" for i in range(10))
    next(text_blocks.blocks(texts))
    assert read == [0, 1]


@pytest.mark.parametrize("text", [None, 3, b"bytes", "\ud800"])
def test_what_is_no_text_is_refused_with_its_number(text):
    with pytest.raises(UserError, match=r"Text 2 must be a string"):
        list(text_blocks.blocks(["a", text]))
