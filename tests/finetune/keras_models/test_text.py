import dataclasses
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

import electra_tf
from electra_tf.checkpoint import weights as weights_lib
from electra_tf.util import seeds
from electra_tf.util.errors import ElectraWarning, UserError

TEXTS = ["the good film is very", "it was a bad plot"] * 8
LABELS = [1, 0] * 8


@pytest.fixture(scope="module")
def model(path):
    with seeds.seed_initializers(0):
        model = electra_tf.ElectraClassifier.from_checkpoint(
            path, labels=("bad", "good")
        )
    optimizer = keras.optimizers.Adam(1e-2)
    model.compile(optimizer, run_eagerly=True)
    return model


def test_datasets_of_string_batches_are_accepted(model):
    data = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(5)
    found = model.evaluate(data, verbose=0, return_dict=True)
    scores = model.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(scores["loss"], rel=1e-4)
    pair = (TEXTS[:3], TEXTS[1:4])
    strings = tf.data.Dataset.from_tensors(pair).map(lambda *pair: (pair,))
    np.testing.assert_allclose(
        model.predict(strings, verbose=0),
        model.predict(pair, verbose=0),
        rtol=1e-4,
        atol=1e-5,
    )


def test_an_assumed_number_of_attention_heads_gives_a_warning():
    weights = dataclasses.replace(tiny.weights(), heads_are_assumed=True)
    weights = weights_lib.select(weights, weights_lib.ENCODER)
    with pytest.warns(ElectraWarning):
        electra_tf.ElectraClassifier._from_weights(weights, 2)


def test_class_weight_of_datasets_is_by_label_or_number(model):
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    data = model.dataset(TEXTS, LABELS, batch_size=16)
    losses = [
        model.fit(data, class_weight=weights, verbose=0).history["loss"][0]
        for weights in ({"good": 3.0}, {0: 1.0, 1: 3.0}, {0: 1.0, 1: 1.0})
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.3) != losses[2]
    assert losses[0] > 1.3 * losses[2]


def test_the_last_inputs_can_be_held_out_unless_others_are_given(model):
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    names = ["good"] * 12 + ["bad"] * 4
    for given, held_out in (
        ({}, (TEXTS[12:], [0] * 4)),
        ({"validation_data": (TEXTS[:2], LABELS[:2])}, (TEXTS[:2], LABELS[:2])),
    ):
        found = model.fit(
            TEXTS, names, validation_split=0.25, verbose=0, **given
        )
        scores = model.evaluate(*held_out, verbose=0, return_dict=True)
        assert found.history["val_loss"] == [pytest.approx(scores["loss"])]


def test_classify_returns_labels_if_the_model_has_any(path, model):
    logits = model.predict(TEXTS, verbose=0)
    names = np.array(["bad", "good"])[logits.argmax(1)]
    assert model.classify(TEXTS) == names.tolist()
    numbers = electra_tf.ElectraClassifier.from_checkpoint(path, 3)
    assert set(numbers.classify(TEXTS)) <= {0, 1, 2}
    with pytest.raises(UserError):
        electra_tf.ElectraClassifier.from_checkpoint(path)
    with pytest.raises(UserError):
        model.fit((("a", "film"), ("a", "plot")), ["good", "bad"])


def test_there_is_one_weight_for_each_input(model):
    with pytest.raises(ValueError):
        model.dataset(TEXTS[:2], LABELS[:2], sample_weight=[1.0, 2.0, 3.0])


def test_the_package_is_imported_without_tensorflow():
    code = (
        "import sys, electra_tf; assert 'tensorflow' not in sys.modules;"
        "assert 'ElectraTagger' in dir(electra_tf);"
        "assert not hasattr(electra_tf, 'Electra')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="module")
def regressor():
    return electra_tf.ElectraRegressor(tiny.ENCODER, tiny.VOCABULARY, (1, 3))


@pytest.mark.parametrize("targets", [[1, 5], [0.5, 2], [-1, 9]])
def test_values_outside_of_the_range_are_warned_of(regressor, targets):
    with pytest.warns(ElectraWarning):
        rows = list(regressor.rows(["a", "film"], targets))
    assert [row["targets"] for row in rows] == targets  # learned unchanged


def test_a_loss_of_ones_own_gets_targets_of_the_shape_of_outputs(path):
    class Squares(keras.losses.Loss):
        def call(self, y_true, y_pred):
            return (y_true - y_pred) ** 2

    model = electra_tf.ElectraRegressor.from_checkpoint(path, (1, 3))
    data = (["a", "film", "a plot"], [1, 2, 3])
    scores = []
    for loss in (Squares(), "auto"):
        model.compile("sgd", loss, run_eagerly=True)
        scores.append(model.evaluate(*data, verbose=0))
        weights = {"sample_weight": [1.0, 0.0, 2.0]}
        scores[-1] += model.evaluate(*data, verbose=0, **weights)
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    _, targets = next(iter(model.dataset(*data)))
    assert targets.shape == [3, 1]
