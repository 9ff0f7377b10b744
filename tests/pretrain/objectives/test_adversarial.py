"""Both gradients of an adversarial generator against their definitions."""

import numpy as np
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.model import sampling
from electra_tf.pretrain.random_keys import Purpose, TrainingKeys, draw


def _model(**leaves):
    small = {"initializer_range": 0.3, "num_hidden_layers": 1}
    leaves = {"objective": "adversarial", **small, **leaves}
    return tiny.model(tiny.config(**leaves))


def test_losses_of_reinforce_equal_their_formulas():
    model = _model(adversarial_steps=(0, 10), temperature=2.0)
    inputs, beta = tiny.batch(), 0.4
    keys = TrainingKeys(KEYS, tf.fill([8], 4 / 20))  # the 4th of 20 updates
    out, terms = tiny.forward(model, inputs, keys)
    used = out.masked.weights.numpy() > 0
    truth, sampled = out.masked.ids.numpy(), out.fake.sampled_ids.numpy()

    # The paper's D is the probability of "real".
    z = out.disc_logits.numpy().astype(np.float64)
    z = np.take_along_axis(z, out.masked.positions.numpy(), 1)
    real = 1 / (1 + np.exp(z))
    reward = -np.log(np.where(sampled == truth, real, 1 - real))
    u = out.baseline_logits.numpy().astype(np.float64)
    right = 1 / (1 + np.exp(-u))  # what the baseline expects of D
    advantage = reward + np.log(right)
    policy = -(advantage * -tiny.softmax_nats(out.mlm_logits / 2.0, sampled))[
        used
    ].mean()
    mlm = tiny.softmax_nats(out.mlm_logits, truth)[used].mean()
    p = tf.nn.softmax(tf.cast(out.mlm_logits, tf.float64)).numpy()
    target = np.exp(-reward)
    cross = -(target * np.log(right) + (1 - target) * np.log(1 - right))
    expected = {
        "masked_lm_loss": mlm,
        "generator_loss": (1 - beta) * mlm + beta * policy,
        "baseline_loss": cross[used].mean(),
        "reward": reward[used].mean(),
        "adversarial_share": beta,
        "generator_entropy": -(p * np.log(p)).sum(-1)[used].mean(),
    }
    tiny.assert_means(terms, expected, rtol=1e-4)


def test_a_relaxed_sample_passes_on_the_reversed_gradient():
    beta, gen_weight = 0.25, 3.0
    model = _model(
        adversarial_method="gumbel",
        adversarial_weight=beta,
        gen_weight=gen_weight,
    )
    inputs = tiny.batch()
    out = model.forward(inputs, keys=KEYS, training=True)
    logits = tf.constant(out.mlm_logits.numpy())
    model.generator_model.score = lambda states: logits
    with tf.GradientTape() as tape:
        tape.watch(logits)
        terms = model.compute_losses(inputs, keys=KEYS, training=True)
        loss = 50 * terms["disc_loss"].mean()
    found = tape.gradient(loss, logits)

    # The same by definition: rows of the table weighted by one-hot or relaxed
    # samples, for an encoder that reads vectors instead of ids.
    size = tiny.VOCABULARY.size
    table = tf.convert_to_tensor(model.electra.embeddings.word_embeddings)
    noise = sampling.gumbel_noise(draw(KEYS, Purpose.SAMPLE, logits.shape[1:]))
    places = tf.one_hot(out.masked.positions, tiny.LENGTH)
    places *= out.masked.weights[..., None]  # [B, N, L]
    with tf.GradientTape() as tape:
        tape.watch(logits)
        relaxed = tf.nn.softmax(logits + noise)
        hard = tf.one_hot(tf.argmax(logits + noise, -1), size)
        rows = hard + relaxed - tf.stop_gradient(relaxed)
        chosen = tf.reduce_sum(places, 1)[..., None]  # [B, L, 1]
        rows = (1 - chosen) * tf.one_hot(inputs.input_ids, size) + tf.einsum(
            "bnl,bnv->blv", places, rows
        )
        words = tf.einsum("blv,ve->ble", rows, table)
        no_ids = tf.zeros_like(inputs.input_ids)
        output = model.electra(
            no_ids, *inputs[1:], word_offsets=words - table[0]
        )
        z = model.discriminator_predictions(output.sequence_output)
        nats = tf.nn.sigmoid_cross_entropy_with_logits(
            tf.cast(out.fake.is_fake_tokens, tf.float32), z
        )
        real = tf.cast(inputs.input_mask, tf.float32)
        disc = tf.reduce_sum(nats * real) / tf.reduce_sum(real)
        loss = 50 * disc
    np.testing.assert_allclose(terms["disc_loss"].mean(), disc, rtol=1e-5)
    expected = -beta * gen_weight * tape.gradient(loss, logits)
    assert np.abs(expected).max() > 1e-4
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(
        terms["generator_loss"].mean(),
        (1 - beta) * terms["masked_lm_loss"].mean(),
        rtol=1e-6,
    )
