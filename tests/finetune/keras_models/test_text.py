"""Texts, pairs and labels in the forms that users have them."""

import dataclasses
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

import electra_tf
from electra_tf.checkpoint import loading
from electra_tf.finetune.keras_models.base import columns_of
from electra_tf.finetune.keras_models.classifiers import Labels
from electra_tf.util import seeds
from electra_tf.util.errors import ElectraWarning

TEXTS = ["the good film is very", "it was a bad plot"] * 8
LABELS = [1, 0] * 8


def test_texts_and_pairs_come_in_several_forms():
    pairs = [["a", "b"], ["x", "y"]]
    for texts, columns in (
        (("a", "b"), [["a", "b"]]),
        (np.array(["a", "b"]), [["a", "b"]]),
        (tf.constant(["ä", "b"]), [["ä", "b"]]),
        ((["a", "b", "c"], [*"xyz"]), [["a", "b", "c"], [*"xyz"]]),
        ((["a", "b"], ["x", "y"]), pairs),
        ([("a", "x"), ("b", "y")], pairs),
    ):
        assert columns_of(texts) == columns


def test_classes_have_numbers_and_labels():
    classes = Labels(None, ("bad", "good"))
    assert [classes.number(x) for x in ("good", 0, 1.0)] == [1, 0, 1]
    assert [*classes.names] == ["bad", "good"]
    assert [*Labels(2).names] == [0, 1]


@pytest.fixture(scope="module")
def model(path):
    with seeds.seed_initializers(0):
        model = electra_tf.ElectraClassifier.from_checkpoint(
            path, labels=("bad", "good")
        )
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    return model


def test_what_would_be_silently_wrong_is_refused(path, model):
    regressor = electra_tf.ElectraRegressor.from_checkpoint(path)
    answerer = electra_tf.ElectraQA.from_checkpoint(path)
    tagger = electra_tf.ElectraTagger.from_checkpoint(path, 2)
    of_probabilities = keras.losses.SparseCategoricalCrossentropy()
    two, three = TEXTS[:2], [0.1, 0.2, 0.3]
    for call in (
        lambda: columns_of((("a", "x"), ("b", "y"))),  # two pairs or columns
        lambda: columns_of("a film"),
        lambda: columns_of({"text": ["a", "b"]}),
        lambda: Labels(2).number(2),
        lambda: Labels(2).number(-1),
        lambda: Labels(2).number(0.5),
        lambda: Labels(None, ("1", "2")).number(1),  # the first or the second
        lambda: type(model).from_checkpoint(path),
        lambda: model.dataset(two, [1, 0], sample_weight=three),
        lambda: model.compile(loss="sparse_categorical_crossentropy"),
        lambda: model.compile(loss=of_probabilities),
        lambda: answerer.compile("sgd", "mse"),
        lambda: tagger.predict(["a film"]),
        lambda: tagger.quantize("int8"),  # would change nothing
        lambda: regressor.dataset(two, three),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()


def test_a_seed_of_none_is_random_and_is_kept():
    one, other = (
        electra_tf.ElectraRegressor(tiny.ENCODER, tiny.VOCABULARY, seed=None)
        for _ in range(2)
    )
    assert one.seed != other.seed and one.get_config()["seed"] == one.seed
    plain, shuffled = (
        [
            batch["input_ids"].numpy().tolist()
            for batch in one.dataset(tiny.WORDS * 2, shuffle=shuffle)
        ]
        for shuffle in (False, True)
    )
    assert plain != shuffled


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


def test_class_weights_are_by_label_or_number(model):
    losses = [
        model.fit(TEXTS, LABELS, 16, 1, class_weight=x, verbose=0).history[
            "loss"
        ]
        for x in ({"good": 3.0, "bad": 1.0}, {0: 1.0, 1: 3.0}, None)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.3)
    assert losses[0][0] > 1.3 * losses[2][0]


def test_the_last_inputs_can_be_held_out(model):
    found = model.fit(TEXTS, LABELS, epochs=1, validation_split=0.25, verbose=0)
    scores = model.evaluate(TEXTS[12:], LABELS[12:], verbose=0)
    assert found.history["val_loss"] == [pytest.approx(scores[0])]


def test_dropout_and_epochs_are_those_of_run_finetuning(tmp_path):
    weights = tiny.weights()
    sizes = weights.architecture.with_fields(hidden_dropout_prob=0.0)
    weights = dataclasses.replace(weights, architecture=sizes)
    loading.write(str(tmp_path), weights, "electra_tf")
    model = electra_tf.ElectraClassifier.from_checkpoint(str(tmp_path), 2)
    assert model.config.hidden_dropout_prob == 0.1
    model.compile(run_eagerly=True)
    assert len(model.fit(TEXTS[:2], LABELS[:2], verbose=0).epoch) == 10


def test_a_fit_past_the_end_of_the_schedule_warns(path):
    model = electra_tf.ElectraClassifier.from_checkpoint(path, 2)
    model.compile(model.make_optimizer(num_train_steps=1), run_eagerly=True)
    with pytest.warns(ElectraWarning):
        model.fit(TEXTS, LABELS, 8, verbose=0)


def test_weights_go_on_with_slots_and_step_or_warn(path, tmp_path):
    make = electra_tf.ElectraClassifier.from_checkpoint
    first, second, late = (make(path, 2) for _ in range(3))
    for model in (first, second):
        model.compile(run_eagerly=True)
    first.fit(TEXTS, LABELS, 8, epochs=2, verbose=0)
    first.save_weights(tmp_path / "x.weights.h5")
    for model in (second, late):
        model.load_weights(tmp_path / "x.weights.h5")
    found, expected = (x.optimizer.variables for x in (second, first))
    assert len(found) == len(expected) > 40
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    rest = {"epochs": 4, "initial_epoch": 2, "verbose": 0}
    second.fit(TEXTS, LABELS, 8, **rest)
    optimizer = second.optimizer
    assert optimizer.iterations == optimizer._learning_rate.num_train_steps == 8
    late.compile(run_eagerly=True)
    with pytest.warns(ElectraWarning):
        late.fit(TEXTS, LABELS, 8, **rest)


def test_the_package_is_imported_without_tensorflow():
    code = (
        "import sys, electra_tf; assert 'tensorflow' not in sys.modules;"
        "assert 'ElectraTagger' in dir(electra_tf);"
        "assert not hasattr(electra_tf, 'Electra')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
