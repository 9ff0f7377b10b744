"""Losses and metrics of objectives against their formulas, in NumPy.

`masked_lm_loss` and `disc_loss` of every objective are in `test_contract`.
"""

import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.pretrain import export, generators
from electra_tf.pretrain.objectives import all_tokens_mlm, coco_lm
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.random_keys import Purpose, TrainingKeys, draw

CLS, SEP = tiny.VOCABULARY.cls_id, tiny.VOCABULARY.sep_id
SIZE = tiny.VOCABULARY.size
INPUTS = tiny.batch()
TRUTH = INPUTS.input_ids.numpy()
REAL = INPUTS.input_mask.numpy() > 0


def _run(objective, **leaves):
    """Returns a model, a forward pass, and its losses and metrics."""
    small = {"initializer_range": 0.3, "num_hidden_layers": 1}
    config = tiny.config(objective=objective, **small | leaves)
    model = tiny.model(config)
    return model, *tiny.forward(model, INPUTS)


def _softmax(logits):
    """Computes probabilities, float64 [..., V]."""
    p = np.exp(np.asarray(logits, np.float64))
    return p / p.sum(-1, keepdims=True)


def _at(values, index):
    """Picks values [B, L, V] at an index [B, L]."""
    return np.take_along_axis(values, np.asarray(index)[..., None], -1)[..., 0]


def _slots(values, out):
    """Returns the values [B, L, ...] of all slots in use, [slots, ...]."""
    rows, slots = np.nonzero(out.masked.weights.numpy())
    return values[rows, out.masked.positions.numpy()[rows, slots]]


def _is_replaced(out):
    return out.fake.inputs.input_ids.numpy() != out.inputs.input_ids.numpy()


@pytest.mark.parametrize("behaviour", [(), ("masking",)])
def test_electra_15_judges_the_chosen_positions(behaviour):
    model, out, terms = _run(
        "electra_15", original_behaviour=behaviour, mask_prob=0.3
    )
    chosen, fakes = tiny.chosen(out.masked), _is_replaced(out)
    nats = tiny.sigmoid_nats(out.disc_logits, fakes)
    fake, flagged = fakes[chosen], out.disc_logits.numpy()[chosen] > 0
    expected = {
        "disc_loss": nats[chosen].mean(),
        "replaced_share": fake.mean(),
        "disc_accuracy": (fake == flagged).mean(),
        "disc_precision": (fake & flagged).sum() / flagged.sum(),
        "disc_recall": (fake & flagged).sum() / fake.sum(),
    }
    tiny.assert_means(terms, expected)
    _, detection = model.evaluation_step(INPUTS, keys=KEYS)
    np.testing.assert_array_equal(detection.judged, chosen)


@pytest.mark.parametrize(
    ("objective", "leaves"),
    [("electric", {}), ("electra", {"generator_type": "two_tower"})],
)
def test_two_towers_and_energies(objective, leaves):
    model, out, terms = _run(objective, **leaves, mask_prob=0.3)
    states, table = model.generator(*INPUTS), model.generator.word_embeddings
    q = _softmax(model.cloze_predictions(states, table))
    noised, candidates = out.fake.inputs, tiny.candidates(INPUTS)
    states = model.electra(*noised).sequence_output
    z = model.discriminator_predictions(states).numpy().astype(np.float64)
    labels = _is_replaced(out)
    if objective == "electric":
        labels = tiny.chosen(out.masked)
        k, m = (x.sum(1, keepdims=True) for x in (labels, candidates))
        z += np.log(_at(q, noised.input_ids)) + np.log(k / (m - k))
    nats = -np.log(_at(q, TRUTH))
    expected = {
        "cloze_loss": nats[candidates].mean(),
        "masked_lm_loss": nats[tiny.chosen(out.masked)].mean(),
        "disc_loss": tiny.sigmoid_nats(z, labels)[REAL].mean(),
        "cloze_accuracy": (q.argmax(-1) == TRUTH)[candidates].mean(),
        "replaced_share": labels[REAL].mean(),
    }
    tiny.assert_means(terms, expected)


def test_replace_mlm_corrects_samples_at_the_chosen_positions():
    model, out, terms = _run("replace_mlm")
    states = model.electra(*out.fake.inputs).sequence_output
    p = _softmax(model.logits(states))
    nats, right = -np.log(_at(p, TRUTH)), p.argmax(-1) == TRUTH
    expected = {
        "corrector_loss": _slots(nats, out).mean(),
        "corrector_accuracy": _slots(right, out).mean(),
    }
    tiny.assert_means(terms, expected)
    found = model.log_probabilities(states, None)
    np.testing.assert_allclose(found, np.log(p), atol=1e-5)


def test_all_tokens_mlm_mixes_a_copy_and_a_word_at_every_token():
    model, out, terms = _run("all_tokens_mlm")
    gate = model.copy_predictions(out.states).numpy().astype(np.float64)
    copy = (1 / (1 + np.exp(-gate)))[..., None]
    ids = out.fake.inputs.input_ids.numpy()
    p = copy * (ids[..., None] == np.arange(SIZE))
    p = p + (1 - copy) * _softmax(model.logits(out.states))
    right, fake = p.argmax(-1) == TRUTH, REAL & _is_replaced(out)
    expected = {
        "corrector_loss": -np.log(_at(p, TRUTH)[REAL]).mean(),
        "corrector_accuracy": right[REAL].mean(),
        "corrected_share": right[fake].mean(),
    }
    tiny.assert_means(terms, expected)
    found = model.log_probabilities(out.states, ids)
    np.testing.assert_allclose(found, np.log(p), atol=1e-4)


def test_the_copy_loss_is_right_however_sure_the_gate_is():
    gate = np.array([[-200.0, -30.0, 0.0, 30.0, 200.0]] * 2, np.float32)
    is_fake = np.array([[0] * 5, [1] * 5], np.int32)
    variable = tf.Variable(gate)
    words = tf.fill([2, 5], -3.0)
    with tf.GradientTape() as tape:
        loss = all_tokens_mlm.copy_cross_entropy(variable, words, is_fake)
    wide = gate.astype(np.longdouble)
    log_copy, log_word = (-np.logaddexp(0, z) for z in (-wide, wide))
    mixed = np.logaddexp(log_copy, log_word - 3)
    expected = -np.where(is_fake, log_word - 3, mixed).astype(float)
    np.testing.assert_allclose(loss, expected, rtol=1e-5, atol=1e-5)
    assert np.isfinite(tape.gradient(loss, variable)).all()


def _contrast(views, group):
    """Returns the mean contrastive loss of [B, 2, H], in groups of rows."""
    views = views / np.linalg.norm(views, axis=-1, keepdims=True)
    nats = []
    for first in range(0, len(views), group):
        u = np.concatenate(views[first : first + group]).astype(np.float64)
        scores = np.exp(u @ u.T) * (1 - np.eye(len(u)))
        other_view = np.arange(len(u)) ^ 1
        nats += [*-np.log(scores[other_view, range(len(u))] / scores.sum(1))]
    return np.mean(nats)


def test_a_crop_is_a_part_of_the_row_from_any_place_on():
    words = np.arange(10, 20)
    ids = np.array([[CLS, *words, SEP, 0], [CLS, 7, SEP, *[0] * 10], [0] * 13])
    segments = np.array([[0] * 6 + [1] * 6 + [0], [0] * 13, [0] * 13])
    inputs = Inputs(
        *(tf.constant(x, tf.int32) for x in (ids, ids > 0, segments))
    )
    for where, first in ((0.0, 0), (0.3, 1), (0.99, 4)):
        found = coco_lm.crop(inputs, 0.6, tf.fill([3], where), tiny.VOCABULARY)
        part = [CLS, *words[first : first + 6], SEP]
        expected = [part + [0] * 5, [CLS, 7, SEP] + [0] * 10, [0] * 13]
        np.testing.assert_array_equal(found.input_ids, expected)
        np.testing.assert_array_equal(found.input_mask, found.input_ids > 0)
        kept = segments[0, 1 + first : 7 + first]
        np.testing.assert_array_equal(found.segment_ids[0, 1:7], kept)


def test_coco_lm_contrasts_a_text_with_its_crop_and_corrects_it():
    model, out, terms = _run("coco_lm", contrast_group=3)
    where = draw(KEYS, Purpose.CROP, ())
    crop = coco_lm.crop(INPUTS, coco_lm.CROP_SHARE, where, tiny.VOCABULARY)
    head = model.contrast_predictions
    views = [
        head.layer_norm(
            tf.nn.gelu(head.dense(model.electra(*x).sequence_output[:, 0]))
        ).numpy()
        for x in (out.fake.inputs, crop)
    ]
    nats = tiny.softmax_nats(out.corrector_logits, out.masked.ids)
    expected = {
        "contrast_loss": _contrast(np.stack(views, 1), 3),
        "corrector_loss": nats[out.masked.weights.numpy() > 0].mean(),
    }
    tiny.assert_means(terms, expected, rtol=1e-4)
    assert terms["contrast_loss"].weight == len(TRUTH)


def _project(model, inputs):
    """Returns the vectors that choose words, float64 [B, L, E]."""
    head = model.selection_predictions
    states = model.electra(*inputs).sequence_output
    x = head.layer_norm(tf.nn.gelu(head.dense(states))).numpy()
    return x.astype(np.float64)


def _word_table(model):
    return model.electra.embeddings.word_embeddings.numpy()


def test_mc_bert_chooses_among_words_and_neither():
    model, out, terms = _run("mc_bert", num_candidates=6, mask_prob=0.5)
    words, fake = out.words.numpy(), _is_replaced(out)
    np.testing.assert_array_equal(words[..., -1], TRUTH)
    x = _project(model, out.fake.inputs)
    scores = (_word_table(model)[words] * x[..., None, :]).sum(-1)
    neither = x @ model.selection_predictions.neither.numpy()
    p = np.exp(np.concatenate([neither, scores], -1))  # [B, L, 1 + 6]
    verdicts = np.log(p[..., 1:-1].sum(-1)) - np.log(p[..., 0])
    np.testing.assert_allclose(
        out.disc_logits.numpy()[REAL], verdicts[REAL], rtol=1e-3, atol=1e-4
    )
    _, detection = model.evaluation_step(INPUTS, keys=KEYS)
    exported = model.discriminate(out.fake.inputs)
    np.testing.assert_allclose(detection.logits, exported, rtol=1e-5)
    # x_t can be chosen once, and only where the token was replaced: there it
    # takes its own place among the words, or the last one's.
    is_truth = words[..., :-1] == TRUTH[..., None]
    is_truth[..., -1] |= ~is_truth.any(-1)
    assert is_truth[fake][:, :-1].any() and is_truth[fake][:, -1].any()
    p[..., 1:-1] *= ~(is_truth & fake[..., None])
    p[..., -1] *= fake
    assert np.all((p > 0).sum(-1) == 6)
    p /= p.sum(-1, keepdims=True)
    chosen = np.where(fake, p[..., -1], p[..., 0])
    expected = {
        "selection_loss": -np.log(chosen[REAL]).mean(),
        "selection_accuracy": (p.argmax(-1) == 6 * fake)[REAL].mean(),
    }
    tiny.assert_means(terms, expected)


def test_candidates_are_the_generators_likeliest_other_words():
    model, *_ = _run("mc_bert", num_candidates=6)
    likely = np.arange(20, 26)
    bias = np.zeros(SIZE)
    bias[likely] = 1e4  # it predicts nothing else
    model.generator_predictions.output_bias.assign(bias)
    out = model.forward(INPUTS, keys=KEYS, training=False)
    candidates = out.words.numpy()[..., :-1].reshape(-1, 5)
    ids = out.fake.inputs.input_ids.numpy().ravel()
    for words, token in zip(candidates, ids, strict=True):
        assert len({*words}) == 5 and {*words} <= {*likely} - {token}


def test_teams_chooses_among_words_and_detects_with_a_layer_of_its_own():
    model, out, terms = _run("teams", num_hidden_layers=2)
    words, x = out.words.numpy(), _project(model, out.fake.inputs)
    np.testing.assert_array_equal(words[..., 0], out.masked.ids)
    assert all(len({*slot}) == 5 for slot in words.reshape(-1, 5).tolist())
    words = words[out.masked.weights.numpy() > 0]  # [slots, 5]
    p = np.exp((_word_table(model)[words] * _slots(x, out)[:, None]).sum(-1))
    p /= p.sum(-1, keepdims=True)
    expected = {
        "selection_loss": -np.log(p[:, 0]).mean(),
        "selection_accuracy": (p.argmax(-1) == 0).mean(),
    }
    tiny.assert_means(terms, expected)
    below = model.electra(*INPUTS).all_layers[-2]
    states = model.blocks[0](below, model.electra.bias(INPUTS.input_mask))
    verdicts = model.discriminator_predictions(states)
    np.testing.assert_array_equal(model.discriminate(INPUTS), verdicts)
    layers = export.networks_of(model)["discriminator"].layers
    scopes = {v.path.split("/")[0] for x in layers for v in x.weights}
    own = {"discriminator_encoder", "discriminator_predictions"}
    assert scopes == {"electra"} | own


def test_script_reads_words_and_verdicts_from_one_network():
    model, *_ = _run("script")
    head = model.generator_predictions
    head.output_bias.assign(np.linspace(-1, 1, SIZE))
    out, _ = tiny.forward(model, INPUTS)

    def scores(inputs):
        """Returns the head's score of every word, float64 [B, L, V]."""
        x = head.project(model.electra(*inputs).sequence_output).numpy()
        scores = x @ _word_table(model).T + head.output_bias.numpy()
        return scores.astype(np.float64)

    used = out.masked.weights.numpy() > 0
    words = _slots(scores(out.masked.inputs), out)
    np.testing.assert_allclose(
        out.mlm_logits.numpy()[used], words, rtol=1e-4, atol=1e-4
    )
    s = np.log(np.exp(scores(out.fake.inputs)).mean(-1))[REAL]
    np.testing.assert_allclose(out.disc_logits.numpy()[REAL], s, atol=1e-4)


def test_reinforce_weighs_samples_by_rewards():
    leaves = {"adversarial_steps": (0, 10), "temperature": 2.0}
    model, *_ = _run("adversarial", **leaves)
    beta = 0.4
    keys = TrainingKeys(KEYS, tf.fill([8], 4 / 20))  # the 4th of 20 updates
    out, terms = tiny.forward(model, INPUTS, keys)
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
    leaves = {"adversarial_weight": beta, "gen_weight": gen_weight}
    model, out, _ = _run("adversarial", adversarial_method="gumbel", **leaves)
    logits = tf.constant(out.mlm_logits.numpy())
    model.generator_model.score = lambda states: logits
    with tf.GradientTape() as tape:
        tape.watch(logits)
        terms = model.compute_losses(INPUTS, keys=KEYS, training=True)
        loss = 50 * terms["disc_loss"].mean()
    found = tape.gradient(loss, logits)

    # The same by definition: rows of the table weighted by one-hot or relaxed
    # samples, for an encoder that reads vectors instead of ids.
    table = tf.convert_to_tensor(model.electra.embeddings.word_embeddings)
    noise = generators.gumbel_noise(
        draw(KEYS, Purpose.SAMPLE, logits.shape[1:])
    )
    places = tf.one_hot(out.masked.positions, tiny.LENGTH)
    places *= out.masked.weights[..., None]  # [B, N, L]
    with tf.GradientTape() as tape:
        tape.watch(logits)
        relaxed = tf.nn.softmax(logits + noise)
        hard = tf.one_hot(tf.argmax(logits + noise, -1), SIZE)
        rows = hard + relaxed - tf.stop_gradient(relaxed)
        chosen = tf.reduce_sum(places, 1)[..., None]  # [B, L, 1]
        rows = (1 - chosen) * tf.one_hot(INPUTS.input_ids, SIZE) + tf.einsum(
            "bnl,bnv->blv", places, rows
        )
        words = tf.einsum("blv,ve->ble", rows, table)
        no_ids = tf.zeros_like(INPUTS.input_ids)
        output = model.electra(
            no_ids, *INPUTS[1:], word_offsets=words - table[0]
        )
        z = model.discriminator_predictions(output.sequence_output)
        labels = tf.cast(out.fake.is_fake_tokens, tf.float32)
        nats = tf.nn.sigmoid_cross_entropy_with_logits(labels, z)
        disc = tf.reduce_mean(nats[REAL])
        loss = 50 * disc
    generator = (1 - beta) * terms["masked_lm_loss"].mean()
    tiny.assert_means(terms, {"disc_loss": disc, "generator_loss": generator})
    expected = -beta * gen_weight * tape.gradient(loss, logits)
    assert np.abs(expected).max() > 1e-4
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
