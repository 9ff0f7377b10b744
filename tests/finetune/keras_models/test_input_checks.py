import numpy as np
import pytest
import tensorflow as tf

from electra_tf.finetune.keras_models.input_checks import Labels, columns_of
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
        (np.array("a film"), "Received: array"),
        (tf.constant("a film"), "Received: array"),
        (tf.constant([b"\xff a"]), "must be in UTF-8"),
        (["a", float("nan")], "Received: nan at 1"),
        ([1, 2], "each a pair of strings. Received: 1 at 0"),
        (["a", "\ud800b"], r"lone surrogates. Received: '\\ud800b' at 1"),
        ([("a", "x"), ("b",)], r"Received: \('b',\) at 1"),
        ([("a", "x"), ("b", 2)], "Received: 2 at 1"),
        ((["a", "b"], ["x"]), "2 and 1 texts"),
        ([b"ab", b"cd"], "Received: b'ab' at 0. Decode it: text.decode()"),
        (np.array([b"abc"]), "at 0. Decode it"),
        ([("a", "x"), ("b", b"y")], "Received: b'y' at 1. Decode it"),
    ],
)
def test_invalid_texts_are_refused(texts, message):
    with pytest.raises(UserError, match=message):
        columns_of(texts)


def test_classes_have_numbers_and_labels():
    classes = Labels(None, ("bad", "good"))
    assert classes.count == 2 and classes.name(1) == "good"
    numbers = [classes.number(label, "0") for label in ("good", 0, 1.0)]
    assert numbers == [1, 0, 1]
    assert Labels(3).name(2) == 2
    factors = classes.factors({"good": 3, 0: 0.5})
    assert factors.tolist() == [0.5, 3]


@pytest.mark.parametrize(
    ("label", "message"),
    [
        *(
            (x, f"0 to 1, or one of bad, good. Received: {x!r} at 7")
            for x in ("fine", 2, -1, 0.5, None, float("nan"))
        ),
        (b"good", "Received: b'good' at 7. Decode it: label.decode()"),
        ([0, 1], r"Received: \[0, 1\] at 7. Give the number .*argmax"),
        ([0.0, 1.0], "argmax"),
    ],
)
def test_an_unknown_label_is_refused_with_the_way_out(label, message):
    with pytest.raises(UserError, match=message):
        Labels(2, ("bad", "good")).number(label, "7")


def test_a_number_that_is_also_the_label_of_another_class_is_refused():
    stars = Labels(None, ("1", "2", "4"))
    assert stars.number("1", "0") == 0 and stars.number(0, "0") == 0
    with pytest.raises(UserError, match="number 1 at 7, .*1 or '2'"):
        stars.number(1, "7")
    assert Labels(None, ("0", "1")).number(1, "0") == 1
    with pytest.raises(UserError, match="strings. Received: 5.*num_tags"):
        Labels(None, (5, 4))


@pytest.mark.parametrize(
    "arguments",
    [
        (None,),
        (0,),
        (3, ("bad", "good")),
        (2, ("bad", "bad")),
        (["bad", "good"],),
        (2.0,),
    ],
)
def test_number_and_labels_must_fit(arguments):
    with pytest.raises(UserError, match="[Ll]abel"):
        Labels(*arguments)
