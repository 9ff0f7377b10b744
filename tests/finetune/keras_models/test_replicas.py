import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.finetune.keras_models.replicas import (
    PLACE,
    SHARE,
    add_places,
    weigh_gradient,
)


def _data(num_rows, batch_size, *rest):
    ids = tf.reshape(tf.range(2 * num_rows), [num_rows, 2])
    inputs = {"input_ids": ids}
    value = (inputs, *rest) if rest else inputs
    return tf.data.Dataset.from_tensor_slices(value).batch(batch_size)


def test_rows_know_their_place_in_the_global_batch():
    data = add_places(_data(5, 3, list("abcde")), tiny.replicas(2))
    batches = list(data)
    assert [x[PLACE].numpy().tolist() for x, _ in batches] == [
        [0, 1, 2],
        [0, 1],
    ]
    for inputs, _ in batches:
        assert float(tf.reduce_sum(inputs[SHARE])) == pytest.approx(1)
    assert b"".join(batches[1][1].numpy()) == b"de"
    ((inputs,),) = add_places(_data(3, 3), tiny.replicas(2))
    assert inputs.keys() == {"input_ids", PLACE, SHARE}


def test_batches_of_one_device_stay_as_they_are():
    data = _data(5, 3)
    assert add_places(data, tiny.replicas(1)) is data


@pytest.mark.parametrize(
    ("reduction", "weight"),
    [
        ("sum_over_batch_size", 1.2),
        ("mean", 1.2),
        ("sum", 1),
        ("none", 1),
        ("mean_with_sample_weight", 1),
    ],
)
def test_only_the_gradient_of_a_mean_over_rows_is_weighed(reduction, weight):
    objective = keras.losses.MeanSquaredError(reduction=reduction)
    inputs = {SHARE: tf.fill([3], 1 / 5)}  # 3 of 5 rows, one of 2 replicas
    x = tf.constant(2.0)
    with tiny.replicas(2).scope(), tf.GradientTape() as tape:
        tape.watch(x)
        loss = weigh_gradient(x**2, inputs, objective)
    assert float(loss) == 4
    np.testing.assert_allclose(tape.gradient(loss, x), 4 * weight, rtol=1e-6)


def test_a_loss_without_places_keeps_its_gradient():
    loss = tf.constant(3.0)
    assert weigh_gradient(loss, {}) is loss
    assert weigh_gradient(loss, None) is loss
