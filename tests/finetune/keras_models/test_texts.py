import numpy as np
import pytest
import tensorflow as tf
from electra_tf.finetune.keras_models.texts import columns_of

from electra_tf.util.errors import UserError


def test_texts_and_pairs_come_in_several_forms():
    assert columns_of(["a", "b", "c"]) == [["a", "b", "c"]]
    assert columns_of(("a", "b")) == [["a", "b"]]
    assert columns_of(np.array(["a", "b"])) == [["a", "b"]]
    pairs = [["a", "b", "c"], ["x", "y", "z"]]
    assert columns_of((["a", "b", "c"], ["x", "y", "z"])) == pairs
    assert columns_of([("a", "x"), ("b", "y"), ("c", "z")]) == pairs
    assert columns_of(np.array(pairs).T) == pairs
    two = [("a", "x"), ("b", "y")]
    assert columns_of(two) == [["a", "b"], ["x", "y"]]
    assert columns_of(tf.constant(["ä", "b"])) == [["ä", "b"]]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a text", "sequence of strings.*'a text'"),
        (None, "Received: None"),
        ([], "none"),
        (["a", None], "Received: None at 1"),
        (["a", float("nan")], "Received: nan at 1"),
        ([1, 2], "each a pair of strings. Received: 1 at 0"),
        ([("a", "x"), ("b",)], r"Received: \('b',\) at 1"),
        ([("a", "x"), ("b", 2)], "Received: 2 at 1"),
        ((["a", "b"], ["x"]), "2 and 1 texts"),
        ([b"ab", b"cd"], "Received: b'ab' at 0. Decode it: text.decode()"),
        (np.array([b"abc"]), "at 0. Decode it"),
        ([("a", "x"), ("b", b"y")], "Received: b'y' at 1. Decode it"),
    ],
)
def test_what_is_no_text_is_named(texts, message):
    with pytest.raises(UserError, match=message):
        columns_of(texts)
