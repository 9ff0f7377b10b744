import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

import electra_tf
from electra_tf.finetune.keras_models.fitting import (
    check_logits,
    fit_schedule,
    mean_over_batch,
)
from electra_tf.util.errors import ElectraWarning, UserError


@pytest.fixture(scope="module")
def backbone():
    return electra_tf.ElectraBackbone(tiny.ENCODER, tiny.VOCABULARY)


def _warnings_of_fit(optimizer, batches, **arguments):
    """Fits the schedule to some batches; returns the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_schedule(optimizer, tf.data.Dataset.range(batches), arguments)
    return [str(x.message) for x in caught if x.category is ElectraWarning]


@pytest.mark.parametrize(
    ("arguments", "updates"),
    [
        ({"epochs": 4}, 40),
        ({}, 10),
        ({"epochs": 4, "steps_per_epoch": 5}, 20),
        ({"epochs": 4, "initial_epoch": 1}, 30),
    ],
)
def test_the_rate_falls_to_zero_where_fit_ends(backbone, arguments, updates):
    optimizer = backbone.make_optimizer(2e-3, warmup_proportion=0.2)
    assert not _warnings_of_fit(optimizer, 10, **arguments)
    found = []
    for step in range(updates + 1):
        optimizer.iterations.assign(step)
        found.append(float(optimizer.learning_rate))
    done = np.arange(updates + 1)
    rising = np.minimum(1, done / (0.2 * updates))
    expected = 2e-3 * (1 - done / updates) * rising
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-10)


def test_a_schedule_keeps_the_length_of_the_first_fit(backbone):
    optimizer = backbone.make_optimizer()
    assert not _warnings_of_fit(optimizer, 10, epochs=2)
    optimizer.iterations.assign(20)
    (message,) = _warnings_of_fit(optimizer, 10)
    assert "runs to update 30, but the learning rate is 0 from update 20" in (
        message
    )
    config = keras.saving.serialize_keras_object(optimizer)
    again = keras.saving.deserialize_keras_object(config)
    again.iterations.assign(20)
    assert _warnings_of_fit(again, 10) == [message]


def test_a_given_num_train_steps_is_kept_and_checked(backbone):
    optimizer = backbone.make_optimizer(num_train_steps=40)
    assert not _warnings_of_fit(optimizer, 10, epochs=4)
    assert not _warnings_of_fit(optimizer, 10, epochs=1)  # more may follow
    (message,) = _warnings_of_fit(optimizer, 41)
    assert "is 0 from update 40" in message and "make_optimizer()" in message
    (message,) = _warnings_of_fit(optimizer, 4)
    assert "ends at update 4, within the warm-up of 4" in message
    (message,) = _warnings_of_fit(backbone.make_optimizer(), 1)  # its rate is 0
    assert message.endswith("reaches its peak. Train for longer.")
    for steps in (0, -1):
        with pytest.raises(UserError, match=f"at least 1.*={steps}. Leave"):
            backbone.make_optimizer(num_train_steps=steps)


def test_other_optimizers_are_left_alone():
    assert not _warnings_of_fit(keras.optimizers.Adam(1e-3), 10)


def test_num_train_steps_must_be_given_for_data_of_unknown_size(backbone):
    data = tf.data.Dataset.range(10).filter(lambda x: x > 3)
    optimizer = backbone.make_optimizer()
    with pytest.raises(UserError, match="unknown size.*assert_cardinality"):
        fit_schedule(optimizer, data, {})
    fit_schedule(backbone.make_optimizer(num_train_steps=9), data, {})
    with pytest.raises(UserError, match="epochs . batches"):
        optimizer.learning_rate  # noqa: B018 (it is computed)


PROBABILITY_LOSSES = [
    "sparse_categorical_crossentropy",
    "categorical_crossentropy",
    "binary_crossentropy",
    "BinaryCrossentropy",
    keras.losses.sparse_categorical_crossentropy,
    keras.losses.SparseCategoricalCrossentropy(),
    keras.losses.BinaryFocalCrossentropy(),
    keras.losses.CategoricalCrossentropy,
]


@pytest.mark.parametrize("wrong", PROBABILITY_LOSSES)
def test_a_loss_of_probabilities_is_refused(wrong):
    for loss in (wrong, [wrong], {"output": wrong}):
        with pytest.raises(UserError, match="loss.*logits.*from_logits=True"):
            check_logits(loss, None)


@pytest.mark.parametrize(
    "wrong",
    [
        "sparse_categorical_crossentropy",
        keras.metrics.AUC(),
        "AUC",
        "Precision",
        keras.metrics.Recall(),
        keras.metrics.F1Score(),
        keras.metrics.BinaryAccuracy(),
        keras.metrics.PrecisionAtRecall(0.5),
    ],
)
def test_a_metric_of_probabilities_is_refused(wrong):
    with pytest.raises(UserError, match="`metrics`.*logits"):
        check_logits("mse", (["accuracy", wrong], None))


def test_losses_and_metrics_that_take_no_probabilities_are_accepted():
    check_logits(
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        (["accuracy", keras.metrics.AUC(from_logits=True)], None),
    )
    check_logits("mse", ("mae", [keras.metrics.SparseCategoricalAccuracy()]))
    check_logits(lambda y, x: tf.reduce_mean(x), None)
    check_logits({"a": "hinge", "b": None}, "auto")
    check_logits("no_such_loss", "no_such_metric")  # Keras refuses these


@pytest.mark.parametrize("arguments", [{"epochs": 0}, {"initial_epoch": 1}])
def test_a_fit_of_no_epoch_sets_no_length(backbone, arguments):
    optimizer = backbone.make_optimizer()
    assert not _warnings_of_fit(optimizer, 10, **arguments)
    assert not _warnings_of_fit(optimizer, 10, epochs=2)
    optimizer.iterations.assign(19)
    assert 0 < float(optimizer.learning_rate) < 1e-3


def test_a_replica_without_rows_adds_nothing_to_the_loss():
    assert float(mean_over_batch(tf.zeros([0]))) == 0
    assert float(mean_over_batch(tf.constant([1.0, 4.0]))) == 2.5
