"""Electric and two-tower ELECTRA against their formulas, in NumPy."""

import json
import math

import golden_arrays
import numpy as np
import pytest
import tiny

from electra_tf import configure_pretraining as configure
from electra_tf.config.objectives import get_class
from electra_tf.model.tokenization import Vocabulary

ELECTRIC = {"objective": "electric"}
TWO_TOWER = {"generator_type": "two_tower"}
BOTH = pytest.mark.parametrize(
    "leaves", [ELECTRIC, TWO_TOWER], ids=["electric", "two towers"]
)


def _model(vocabulary=tiny.VOCABULARY, **leaves):
    small = {"initializer_range": 0.3, "num_hidden_layers": 1}
    config = tiny.config(**small | leaves)
    return tiny.model(config, vocabulary)


def _log_q(model, inputs):
    """Computes log q of every word at every token, float64 [B, L, V]."""
    states = model.generator(*inputs)
    table = model.generator.word_embeddings
    logits = model.cloze_predictions(states, table).numpy().astype(np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def _of(log_q, ids):
    return np.take_along_axis(log_q, np.asarray(ids)[..., None], -1)[..., 0]


@BOTH
def test_losses_equal_their_formulas(leaves):
    model, inputs = _model(mask_prob=0.3, **leaves), tiny.batch()
    out, terms = tiny.forward(model, inputs)
    log_q = _log_q(model, inputs)
    cloze = -_of(log_q, inputs.input_ids)[tiny.candidates(inputs)].mean()
    noised = out.fake.inputs
    states = model.electra(*noised).sequence_output
    z = model.discriminator_predictions(states).numpy().astype(np.float64)
    labels = noised.input_ids.numpy() != inputs.input_ids.numpy()
    if leaves == ELECTRIC:
        labels = tiny.chosen(out.masked)
        k = labels.sum(1, keepdims=True)
        m = tiny.candidates(inputs).sum(1, keepdims=True)
        assert np.all(k < m)
        z += _of(log_q, noised.input_ids) + np.log(k / (m - k))
    real = inputs.input_mask.numpy() > 0
    disc = tiny.sigmoid_nats(z, labels)[real].mean()
    np.testing.assert_allclose(
        out.disc_logits.numpy()[real], z[real], rtol=1e-4, atol=1e-4
    )
    masked_lm = -_of(log_q, inputs.input_ids)[tiny.chosen(out.masked)].mean()
    losses = {"cloze_loss": cloze, "disc_loss": disc}
    tiny.assert_means(terms, {**losses, "masked_lm_loss": masked_lm})
    right = log_q.argmax(-1) == inputs.input_ids.numpy()
    shares = {
        "cloze_accuracy": right[tiny.candidates(inputs)].mean(),
        "replaced_share": labels[real].mean(),
    }
    tiny.assert_means(terms, shares, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "leaves"),
    [
        ("small_electric", ELECTRIC),
        pytest.param("small_two_tower", TWO_TOWER, marks=pytest.mark.slow),
    ],
)
def test_names_and_shapes_at_full_size_are_the_originals(name, leaves):
    config = configure.PretrainingConfig(
        run=configure.RunConfig(data_dir="d", model_name="m"),
        objective=configure.ObjectiveConfig(**leaves),
    )
    tokens = tiny.SPECIALS + tuple(f"w{i}" for i in range(30522 - 5))
    objective = get_class(config.objective.objective)
    model = objective(config, Vocabulary(tokens))
    shapes = {v.path: tuple(v.shape) for v in model.trainable_variables}
    assert sum(map(math.prod, shapes.values())) == 14_812_475
    path = golden_arrays.ROOT / "model/real_sizes_variables.json"
    if path.exists():
        listed = json.loads(path.read_text())[name]["variables"]
        assert shapes == {name: tuple(shape) for name, shape, _ in listed}
