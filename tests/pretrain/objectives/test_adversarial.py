import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_language
from tiny import KEYS

from electra_tf.config.objectives import AdversarialConfig
from electra_tf.model import sampling
from electra_tf.pretrain.objectives.adversarial import adversarial_share
from electra_tf.pretrain.random_keys import Purpose, TrainingKeys, draw
from electra_tf.util import seeds

NUM_STEPS = 20  # of tiny.config
METHODS = ["reinforce", "gumbel"]


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
    config = AdversarialConfig(
        adversarial_weight=0.5,
        adversarial_start_step=first,
        adversarial_end_step=last,
    )
    for step, share in expected.items():
        found = adversarial_share(tf.constant(float(step)), config)
        np.testing.assert_allclose(found, share, rtol=1e-6)


def _at_slots(values, positions):
    return np.take_along_axis(np.asarray(values, np.float64), positions, 1)


def test_losses_of_reinforce_equal_their_formulas():
    model = _model(adversarial_end_step=10, temperature=2.0)
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
    tau, beta, gen_weight = 0.7, 0.25, 3.0
    model = _model(
        adversarial_method="gumbel",
        gumbel_temperature=tau,
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
        relaxed = tf.nn.softmax((logits + noise) / tau)
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


def test_relaxed_samples_follow_the_generators_distribution():
    model = _model(adversarial_method="gumbel", mask_prob=0.5)
    logits = tf.tile(tf.constant([[[1.0, 0.0, -1.0, 2.0]]]), [4000, 5, 1])
    keys = seeds.row_keys(0, tf.constant(0), tf.range(4000))
    sampled = model._sample(logits, keys).numpy().ravel()
    p = tf.nn.softmax(logits[0, 0]).numpy()
    share = np.bincount(sampled, minlength=4) / sampled.size
    assert np.abs(share - p).max() < 5 * np.sqrt(0.25 / sampled.size)


GENERATOR = ("generator/", "generator_predictions/")


@pytest.mark.parametrize("method", METHODS)
def test_adversarial_equals_electra_before_its_start_step(method):
    model = _model(
        adversarial_method=method,
        adversarial_start_step=5,
        adversarial_end_step=9,
        temperature=1.5,
    )
    inputs, keys = tiny.batch(), _keys(5)
    terms = model.compute_losses(inputs, keys=keys, training=True)
    np.testing.assert_array_equal(
        terms["generator_loss"], terms["masked_lm_loss"]
    )
    found = tiny_language.gradients(model, "disc_loss", inputs, keys)
    assert not found["generator_predictions/dense/kernel"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "raised"), [("reinforce", "reward"), ("gumbel", "disc_loss")]
)
def test_a_generator_learns_to_fool_a_frozen_discriminator(method, raised):
    model = _model(
        adversarial_method=method,
        generator_sharing="none",
        num_hidden_layers=1,
        initializer_range=0.15,
    )
    inputs = tiny.batch(64)
    trained = (*GENERATOR, "baseline_predictions/")
    variables = [
        v.value for v in model.trainable_variables if v.path.startswith(trained)
    ]
    optimizer = tf.keras.optimizers.Adam(1e-2)

    @tf.function(autograph=False)
    def step(i):
        keys = seeds.row_keys(1, i, tf.range(64))
        with tf.GradientTape() as tape:
            terms = model.compute_losses(inputs, keys=keys, training=True)
            loss = tiny.total_loss(model, terms)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, variables), variables, strict=True)
        )
        return terms[raised].mean()

    losses = np.array([step(tf.constant(i)) for i in range(100)])
    assert losses[-9:].min() > losses[:9].max()


@pytest.mark.slow
def test_a_resumed_run_ends_with_the_same_bits():
    """The share of the adversarial loss follows the restored step."""
    leaves = {
        "objective": "adversarial",
        "adversarial_start_step": 2,
        "adversarial_end_step": 8,
        "num_hidden_layers": 1,
    }
    tiny.assert_resumes(lambda: _model(**leaves), [4], 8)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_adversarial_learns_a_tiny_language(method):
    model, terms = tiny_language.train(
        400,
        objective="adversarial",
        adversarial_method=method,
        adversarial_start_step=150,
        adversarial_end_step=300,
    )
    likelihood = terms["masked_lm_loss"]
    assert likelihood[130:150].mean() < 0.6 * likelihood[:5].mean()
    assert terms["disc_loss"][-20:].mean() < 0.2 * terms["disc_loss"][:5].mean()
    metrics = tiny_language.evaluate(model)
    assert metrics["disc_auc"] > 0.9
    assert metrics["generator_entropy"] > 0.5  # no collapse
    assert metrics["adversarial_share"] == 1.0
