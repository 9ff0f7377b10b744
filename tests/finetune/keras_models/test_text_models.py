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
from electra_tf.finetune.keras_models.batches import Data
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


def test_other_datasets_are_refused_with_the_way_to_string_batches(model):
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    numbered = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(16)
    names = tf.constant(["bad", "good"])
    named = numbered.map(lambda x, y: (x, tf.gather(names, y)))
    way_out = "Map it to texts, batch it, .*StringLookup"
    for wrong, message in (
        (numbered.unbatch(), way_out),
        (named, way_out),
        (numbered.map(lambda x, y: (y, x)), way_out),
        (numbered.map(lambda x, y: (x[:, None], y)), way_out),
        (numbered.map(lambda x, y: (x, {"label": y})), way_out),
        (numbered.map(lambda x, y: (x, (y, y))), way_out),
        (numbered.map(lambda x, y: (x, tf.one_hot(y, 2))), "argmax"),
        (model.dataset(TEXTS, LABELS).unbatch(), r"data.batch\(32\)"),
    ):
        with pytest.raises(UserError, match=message):
            model.evaluate(wrong, verbose=0)
    lookup = keras.layers.StringLookup(
        vocabulary=model.labels, num_oov_indices=0
    )
    expected = model.evaluate(numbered, verbose=0)
    found = named.map(lambda x, y: (x, lookup(y)))
    assert model.evaluate(found, verbose=0) == pytest.approx(expected)
    one_hot = numbered.map(lambda x, y: (x, tf.one_hot(y, 2)))
    model.compile(
        "sgd",
        keras.losses.CategoricalCrossentropy(from_logits=True),
        run_eagerly=True,
    )
    assert model.evaluate(one_hot, verbose=0)[0] == pytest.approx(expected[0])
    for method in (model.fit, model.evaluate):
        with pytest.raises(UserError, match="take numbers of classes.*Sparse"):
            method(TEXTS, LABELS)


def test_an_assumed_number_of_attention_heads_gives_a_warning():
    weights = dataclasses.replace(tiny.weights(), heads_are_assumed=True)
    weights = weights_lib.select(weights, weights_lib.ENCODER)
    with pytest.warns(ElectraWarning, match="2 attention heads are assumed"):
        electra_tf.ElectraClassifier._from_weights(weights, 2)


def test_a_file_of_keras_is_no_checkpoint():
    for make in (
        electra_tf.ElectraClassifier.from_checkpoint,
        electra_tf.ElectraClassifier.from_finetuned,
    ):
        with pytest.raises(UserError, match="film.keras.*saving.load_model"):
            make("film.keras")


def test_class_weight_multiplies_sample_weight(model):
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    rows = model._rows(Data(TEXTS, LABELS, np.full(16, 2.0)))
    model._weigh(rows, {"bad": 3})
    features = model._batches(rows).features
    batch = features.batch(tf.range(16), features.length)
    assert batch["sample_weight"].numpy().tolist() == [2, 6] * 8
    with pytest.raises(UserError, match="'dull' at class_weight"):
        model.fit(TEXTS, LABELS, class_weight={"dull": 2})


def test_labels_may_stand_in_a_column(model):
    rows = [row["label_ids"] for row in model.rows(TEXTS, LABELS)]
    for y in (np.array(LABELS)[:, None], [[label] for label in LABELS]):
        assert [row["label_ids"] for row in model.rows(TEXTS, y)] == rows
    with pytest.raises(UserError, match=r"Received: \[1, 0\] at 0"):
        list(model.rows(TEXTS, np.eye(2, dtype=int)[1 - np.array(LABELS)]))


def test_class_weight_of_datasets_is_by_label_or_number(model):
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    data = model.dataset(TEXTS, LABELS, batch_size=16)
    losses = [
        model.fit(data, class_weight=weights, verbose=0).history["loss"][0]
        for weights in ({"good": 3.0}, {0: 1.0, 1: 3.0}, {0: 1.0, 1: 1.0})
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.3) != losses[2]
    assert losses[0] > 1.3 * losses[2]
    data = model.dataset(TEXTS, LABELS, sample_weight=np.ones(16))
    with pytest.raises(UserError, match="class_weight.*dataset have weights"):
        model.fit(data, class_weight={0: 2.0})


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
    with pytest.raises(UserError, match="from_finetuned"):
        electra_tf.ElectraClassifier.from_checkpoint(path)
    with pytest.raises(UserError, match="one of bad, good.*'fine' at 1"):
        model.fit(TEXTS[:2], ["good", "fine"])


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


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([1, 5], r"Received: 1 to 5\..*value_range=\(1, 5\)"),
        ([0.5, 2], r"Received: 0\.5 to 2\..*value_range=\(0\.5, 3\)"),
        ([-1, 9], r"value_range=\(1\.0, 3\.0\).*value_range=\(-1, 9\)"),
    ],
)
def test_values_outside_of_the_range_are_warned_of(regressor, targets, message):
    with pytest.warns(ElectraWarning, match=message):
        rows = list(regressor.rows(["a", "film"], targets))
    assert [row["targets"] for row in rows] == targets  # learned unchanged


@pytest.mark.parametrize("limits", [(1, 1), (0, np.inf), (-np.inf, 0)])
def test_a_range_of_values_has_two_different_finite_ends(limits):
    with pytest.raises(UserError, match="least and the greatest value"):
        electra_tf.ElectraRegressor(tiny.ENCODER, tiny.VOCABULARY, limits)


def test_values_in_the_range_or_no_values_give_no_warning(regressor):
    list(regressor.rows(["a", "film", "plot"], [1, 2.5, 3]))
    list(regressor.rows(["a", "film"]))


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


def test_fit_needs_compile(regressor):
    with pytest.raises(ValueError, match=r"must call `compile\(\)`"):
        regressor.fit(["a", "film"], [1, 2])


def test_the_default_optimizer_is_that_of_make_optimizer(path):
    model = electra_tf.ElectraRegressor.from_checkpoint(path)
    model.compile()
    expected = model.make_optimizer().get_config()
    assert model.optimizer.get_config() == expected


def test_datasets_of_texts_need_labels(model):
    texts = tf.data.Dataset.from_tensor_slices(TEXTS).batch(4)
    for method in (model.fit, model.evaluate):
        with pytest.raises(UserError, match="hold .inputs, targets.*Zip"):
            method(texts)
