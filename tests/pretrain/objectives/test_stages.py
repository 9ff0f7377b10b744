"""Generators that are trained before the discriminator, by two objectives."""

import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.pretrain import initialization
from electra_tf.pretrain.random_keys import TrainingKeys

FAST = {"objective": "fast_electra", "generator_sharing": "none"}
GENERATOR = ("generator/", "generator_predictions/")
INPUTS = tiny.batch()


def _model(**leaves):
    leaves = {**tiny.TWO_STAGE, "num_hidden_layers": 1, **leaves}
    return tiny.model(tiny.config(**leaves))


def test_the_first_stage_has_the_generators_loss_alone():
    keys = TrainingKeys(KEYS, tf.zeros([8]))
    out, terms = tiny.forward(_model(initializer_range=0.3), INPUTS, keys)
    nats = tiny.softmax_nats(out.mlm_logits, out.masked.ids)
    nats = nats[out.masked.weights.numpy() > 0].mean()
    tiny.assert_means(terms, {"masked_lm_loss": nats})
    assert terms["disc_loss"] == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("is_copied", [True, False])
def test_frozen_variables_keep_their_bits_in_each_stage(is_copied):
    model = _model(init_discriminator_from_generator=is_copied)
    update = tf.function(model.update, autograph=False)

    def weights_after(steps):
        for seed in steps:
            update(tiny.batch(seed=seed))
        return {v.path: v.numpy() for v in model.trainable_variables}

    start = weights_after([])
    middle = weights_after(range(10))
    after = weights_after([10])  # at rate 0, the first of a warm-up
    end = weights_after(range(11, 14))
    for path in start:
        if path.startswith(GENERATOR):
            assert np.any(middle[path] != start[path]), path
            np.testing.assert_array_equal(end[path], middle[path])
            continue
        np.testing.assert_array_equal(middle[path], start[path])
        wanted = start[path]
        if is_copied and path.startswith("electra/"):
            wanted = middle["generator" + path.removeprefix("electra")]
        np.testing.assert_array_equal(after[path], wanted, err_msg=path)
        assert np.any(end[path] != after[path]), path


def test_each_stage_warms_up_and_decays():
    rate = _model(num_warmup_steps=2, learning_rate=1).learning_rate()
    found = [float(rate(tf.constant(step))) for step in range(20)]
    one = [(1 - s / 10) * min(1, s / 2) for s in range(10)]
    np.testing.assert_allclose(found, one * 2, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("last", [1.0, 0.5])
def test_the_temperature_falls_exponentially(last):
    model = _model(**FAST, temperature=last)
    progress = np.array([0, 0.25, 0.5, 1], np.float32)
    found = model.temperature(TrainingKeys(KEYS[:4], tf.constant(progress)))
    expected = last + (2 - last) * np.exp(-progress / 0.1)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5)
    at_the_end = model.temperature(KEYS)
    np.testing.assert_allclose(at_the_end, [expected[-1:]], rtol=1e-5)


@pytest.mark.parametrize("sharing", ["none", "gradient_disentangled"])
def test_a_frozen_generator_has_no_dropout_and_no_slots(sharing):
    model = _model(
        **FAST | {"generator_sharing": sharing}, hidden_dropout_prob=0.1
    )
    logits = [
        model.corrupt(INPUTS, keys=KEYS, training=x).mlm_logits
        for x in (True, False)
    ]
    np.testing.assert_array_equal(*logits)
    slots = {x for x in tiny.arrays(model) if x.endswith("/adam_m")}
    assert slots == {f"{v.path}/adam_m" for v in model.trainable_variables}
    frozen = {v.path for v in model.weights if v.path.startswith(GENERATOR)}
    assert frozen == {v.path for v in model.non_trainable_weights}


def test_the_generator_starts_from_a_masked_language_model(tmp_path):
    mlm = _model(objective="mlm", seed=6)
    Checkpoints(tmp_path, tiny.checkpoint_variables(mlm)).save(3)
    (tmp_path / "vocab.txt").write_bytes(tiny.VOCABULARY.content)
    model = _model(**FAST, generator_checkpoint=str(tmp_path))
    start = initialization.read_initial_weights(model.config)
    initialization.assign_initial_weights(model, start)
    assert int(model.optimizer.iterations) == 0
    inputs = INPUTS._asdict()
    expected = mlm.generator_model(inputs)["logits"]
    found = model.generator_model(inputs)["logits"]
    np.testing.assert_array_equal(found, expected)
