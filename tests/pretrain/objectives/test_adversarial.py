import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.config.objectives import ObjectiveConfig
from electra_tf.model import sampling
from electra_tf.pretrain.objectives.adversarial import adversarial_share
from electra_tf.pretrain.random_keys import Purpose, TrainingKeys, draw

NUM_STEPS = 20  # of tiny.config


def _keys(step):
    """Returns the keys of an update."""
    return TrainingKeys(KEYS, tf.fill([8], step / NUM_STEPS))


def _model(**leaves):
    small = {"initializer_range": 0.3, "num_hidden_layers": 1}
    leaves = {"objective": "adversarial", **small, **leaves}
    return tiny.model(tiny.config(**leaves))


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (10, 20, {0: 0, 10: 0, 12: 0.1, 15: 0.25, 20: 0.5, 99: 0.5}),
        (0, 0, {0: 0.5, 7: 0.5}),
        (5, 5, {4: 0, 5: 0.5, 6: 0.5}),
    ],
)
def test_the_share_rises_linearly_between_two_steps(first, last, expected):
    config = ObjectiveConfig(
        adversarial_weight=0.5,
        adversarial_steps=(first, last),
    )
    for step, share in expected.items():
        found = adversarial_share(tf.constant(float(step)), config)
        np.testing.assert_allclose(found, share, rtol=1e-6)


def _at_slots(values, positions):
    return np.take_along_axis(np.asarray(values, np.float64), positions, 1)


def test_losses_of_reinforce_equal_their_formulas():
    model = _model(adversarial_steps=(0, 10), temperature=2.0)
    inputs, beta, keys = tiny.batch(), 0.4, _keys(4)
    out, terms = tiny.forward(model, inputs, keys)
    used = out.masked.weights.numpy() > 0
    positions = out.masked.positions.numpy()
    truth, sampled = out.masked.ids.numpy(), out.fake.sampled_ids.numpy()

    # The paper's D is the probability of "real".
    real = 1 / (1 + np.exp(_at_slots(out.disc_logits, positions)))
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


def _disc_gradient(model, inputs, logits):
    """Returns the gradient of the weighted discriminator loss with respect to
    the generator's logits, as the model passes it on."""
    model.generator_model.score = lambda states: logits
    with tf.GradientTape() as tape:
        tape.watch(logits)
        terms = model.compute_losses(inputs, keys=KEYS, training=True)
        loss = terms["disc_loss"].mean() * model.loss_weights["disc_loss"]
    return terms, tape.gradient(loss, logits)


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
    terms, found = _disc_gradient(model, inputs, logits)

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
