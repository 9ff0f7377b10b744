import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.pretrain.random_keys import TrainingKeys

FIRST = TrainingKeys(KEYS, tf.zeros([8]))
GENERATOR = ("generator/", "generator_predictions/")


def _model(**leaves):
    leaves = {**tiny.TWO_STAGE, "num_hidden_layers": 1, **leaves}
    model = tiny.model(tiny.config(**leaves))
    model.compiled = tf.function(model.update, autograph=False)
    return model


def _weights(model):
    return {v.path: v.numpy() for v in model.trainable_variables}


def _steps(model, numbers):
    for seed in numbers:
        model.compiled(tiny.batch(seed=seed))
    return _weights(model)


def test_the_first_stage_has_the_generators_loss_alone():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    out, terms = tiny.forward(model, inputs, FIRST)
    nats = tiny.softmax_nats(out.mlm_logits, out.masked.ids)
    nats = nats[out.masked.weights.numpy() > 0].mean()
    tiny.assert_means(terms, {"masked_lm_loss": nats})
    assert terms["disc_loss"] == (0.0, 0.0)
    np.testing.assert_allclose(tiny.total_loss(model, terms), nats, rtol=1e-5)


def test_the_first_stage_reaches_exactly_the_generator():
    model, inputs = _model(initializer_range=0.2), tiny.batch()
    weights = model.loss_denominators(inputs, keys=FIRST)
    _, gradients, _ = model.forward_backward(inputs, FIRST, weights)
    for variable, gradient in zip(
        model.trainable_variables, gradients, strict=True
    ):
        if not variable.path.startswith(GENERATOR):
            assert not np.any(gradient), variable.path
        elif "/key/bias" not in variable.path:
            assert np.any(gradient), variable.path


@pytest.mark.slow
@pytest.mark.parametrize("is_copied", [True, False])
def test_frozen_variables_keep_their_bits_in_each_stage(is_copied):
    model = _model(init_discriminator_from_generator=is_copied)
    start = _weights(model)
    middle = _steps(model, range(10))
    after = _steps(model, range(10, 11))  # at rate 0, the first of a warm-up
    end = _steps(model, range(11, 14))
    for path in start:
        copied = "generator" + path.removeprefix("electra")
        if path.startswith(GENERATOR):
            assert np.any(middle[path] != start[path]), path
            np.testing.assert_array_equal(end[path], middle[path])
            continue
        np.testing.assert_array_equal(middle[path], start[path])
        is_encoder = is_copied and path.startswith("electra/")
        wanted = middle[copied] if is_encoder else start[path]
        np.testing.assert_array_equal(after[path], wanted, err_msg=path)
        assert np.any(end[path] != after[path]), path


def test_each_stage_warms_up_and_decays():
    leaves = {"num_warmup_steps": 2, "learning_rate": 1}
    model = _model(num_train_steps=16, **leaves)
    rate = model.learning_rate()
    found = [float(rate(tf.constant(step))) for step in range(16)]
    first = [(1 - s / 8) * min(1, s / 2) for s in range(8)]
    second = first
    np.testing.assert_allclose(found, first + second, rtol=1e-6, atol=1e-7)
