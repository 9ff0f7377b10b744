import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.pretrain import export
from electra_tf.pretrain.random_keys import TrainingKeys


def _model(**leaves):
    return tiny.model(tiny.config(**{"num_hidden_layers": 1, **leaves}))


def _paths(layer):
    return {variable.path for variable in layer.trainable_variables}


WORDS = "electra/embeddings/word_embeddings"
POSITIONS = "electra/embeddings/position_embeddings"
NOTHING, TABLES, ALL = (), ("electra/embeddings/",), ("electra/",)


@pytest.mark.parametrize(
    ("sharing", "shared"),
    [
        ("embeddings", TABLES),
        ("token_and_position_embeddings", (WORDS, POSITIONS)),
        ("token_embeddings", (WORDS,)),
        ("gradient_disentangled", NOTHING),
        ("none", NOTHING),
        ("all", ALL),
    ],
)
def test_generator_sharing_shares_the_named_variables(sharing, shared):
    model = _model(generator_sharing=sharing)
    stored = export.weights_of(model).architecture
    assert stored.generator_sharing == sharing
    main = _paths(model.electra)
    expected = {path for path in main if path.startswith(shared)}
    assert main & _paths(model.generator) == expected


def test_a_rising_disc_weight_scales_gradients_but_not_the_total():
    model = _model(disc_weight_steps=(5, 15), disc_weight=8.0)
    inputs, gradients = tiny.batch(), {}
    paths = [v.path for v in model.trainable_variables]
    for step in (0, 5, 8, 15, 20):
        keys = TrainingKeys(KEYS, tf.fill([8], step / 20))
        sizes = model.loss_denominators(inputs, keys=keys)
        terms, found, _ = model.forward_backward(inputs, keys, sizes)
        gradients[step] = dict(zip(paths, found, strict=True))
    means = {name: float(term.mean()) for name, term in terms.items()}
    total = means["masked_lm_loss"] + 8 * means["disc_loss"]
    np.testing.assert_allclose(tiny.total_loss(model, terms), total, rtol=1e-5)
    head = "discriminator_predictions/dense/kernel"
    generator = "generator/encoder/layer_0/output/dense/kernel"
    whole, alone = (gradients[step][WORDS].numpy() for step in (20, 0))
    for step, share in {0: 0, 5: 0, 8: 0.3, 15: 1, 20: 1}.items():
        found = gradients[step]
        np.testing.assert_allclose(
            found[head], share * gradients[20][head], rtol=1e-4, atol=1e-7
        )
        np.testing.assert_allclose(
            found[WORDS], alone + share * (whole - alone), atol=1e-4
        )
        np.testing.assert_array_equal(found[generator], gradients[0][generator])
    keys = TrainingKeys(KEYS, tf.fill([8], 5 / 20))
    from_the_start = _model(disc_weight_steps=(0, 20), disc_weight=8.0)
    assert float(from_the_start.loss_factors(keys)["disc_loss"]) == 2.0
