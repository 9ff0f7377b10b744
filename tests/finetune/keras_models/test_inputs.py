"""What users pass to Keras models becomes columns of texts and classes."""

import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

import electra_tf
from electra_tf.finetune.keras_models.base import columns_of
from electra_tf.finetune.keras_models.task_model import Labels


@pytest.mark.parametrize(
    ("texts", "columns"),
    [
        (["a", "b", "c"], [["a", "b", "c"]]),
        (("a", "b"), [["a", "b"]]),
        (np.array(["a", "b"]), [["a", "b"]]),
        (tf.constant(["ä", "b"]), [["ä", "b"]]),
        ((["a", "b", "c"], ["x", "y", "z"]), [["a", "b", "c"], [*"xyz"]]),
        ((["a", "b"], ["x", "y"]), [["a", "b"], ["x", "y"]]),
        ([("a", "x"), ("b", "y")], [["a", "b"], ["x", "y"]]),
        ((("a", "x"), ("b", "y"), ("c", "z")), None),
        ((("a", "x"), ("b", "y")), None),  # two pairs, or two columns
        ("a film", None),
        ({"text": ["a", "b"]}, None),
    ],
)
def test_texts_and_pairs_come_in_several_forms(texts, columns):
    if columns:
        assert columns_of(texts) == columns
    else:
        with pytest.raises((ValueError, TypeError)):
            columns_of(texts)


def test_classes_have_numbers_and_labels():
    classes = Labels(None, ("bad", "good"))
    assert [classes.number(x) for x in ("good", 0, 1.0)] == [1, 0, 1]
    assert classes.count == 2 and classes.name(1) == "good"
    for label in (2, -1, 0.5):
        with pytest.raises(ValueError):
            classes.number(label)
    with pytest.raises(ValueError):
        Labels(None, ("1", "2")).number(1)  # the first label or second class


def test_a_seed_of_none_is_random_and_is_kept():
    models = [
        electra_tf.ElectraRegressor(tiny.ENCODER, tiny.VOCABULARY, seed=None)
        for _ in range(2)
    ]
    assert models[0].seed != models[1].seed
    assert models[0].get_config()["seed"] == models[0].seed
    texts = tiny.WORDS * 2
    orders = [
        [
            batch["input_ids"].numpy().tolist()
            for batch in models[0].dataset(texts, shuffle=shuffle)
        ]
        for shuffle in (False, True)
    ]
    assert orders[0] != orders[1]
