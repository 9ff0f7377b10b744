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
        gradients[step] = dict(zip(paths, map(np.array, found), strict=True))
    total = terms["masked_lm_loss"].mean() + 8 * terms["disc_loss"].mean()
    np.testing.assert_allclose(tiny.total_loss(model, terms), total, rtol=1e-5)
    for path in (
        WORDS,
        "discriminator_predictions/dense/kernel",
        "generator/encoder/layer_0/output/dense/kernel",
    ):
        of_generator, whole = gradients[0][path], gradients[20][path]
        for step, share in {5: 0, 8: 0.3, 15: 1}.items():
            expected = of_generator + share * (whole - of_generator)
            found = gradients[step][path]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        assert np.any(of_generator) == ("discriminator" not in path)
        assert np.any(whole != of_generator) == ("generator" not in path)
