import warnings

import pytest
import tiny_finetuning as tiny

import electra_tf


@pytest.fixture(scope="module")
def model():
    return electra_tf.ElectraRegressor(tiny.ENCODER, tiny.VOCABULARY, (1, 3))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([1, 5], r"Received: 1 to 5\..*value_range=\(1, 5\)"),
        ([0.5, 2], r"Received: 0\.5 to 2\..*value_range=\(0\.5, 3\)"),
        ([-1, 9], r"value_range=\(1\.0, 3\.0\).*value_range=\(-1, 9\)"),
    ],
)
def test_values_outside_of_the_range_are_warned_of(model, targets, message):
    with pytest.warns(UserWarning, match=message):
        rows = list(model.rows(["a", "film"], targets))
    assert [row["targets"] for row in rows] == targets  # they are learned


def test_values_in_the_range_and_none_are_fine(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        list(model.rows(["a", "film", "plot"], [1, 2.5, 3]))
        list(model.rows(["a", "film"]))
