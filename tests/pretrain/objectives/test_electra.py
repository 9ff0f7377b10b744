import golden_arrays
import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import export
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.random_keys import TrainingKeys


def _model(**leaves):
    return tiny.model(tiny.config(**{"num_hidden_layers": 1, **leaves}))


def _paths(layer):
    return {variable.path for variable in layer.trainable_variables}


def test_detection_metrics_equal_their_definitions():
    model, inputs = _model(initializer_range=0.5), tiny.batch()
    out, terms = tiny.forward(model, inputs)
    real = inputs.input_mask.numpy() > 0
    fake = out.fake.is_fake_tokens.numpy()[real] > 0
    flagged = out.disc_logits.numpy()[real] > 0
    assert 0 < flagged.sum() < flagged.size
    both = (fake & flagged).sum()
    expected = {
        "replaced_share": fake.mean(),
        "disc_accuracy": (fake == flagged).mean(),
        "disc_precision": both / flagged.sum(),
        "disc_recall": both / fake.sum(),
    }
    tiny.assert_means(terms, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "sharing",
    [
        "embeddings",
        "token_and_position_embeddings",
        "token_embeddings",
        "gradient_disentangled",
        "none",
        "all",
    ],
)
def test_generator_sharing_shares_the_named_variables(sharing):
    model = _model(generator_sharing=sharing)
    stored = export.weights_of(model).architecture
    assert stored.generator_sharing == sharing
    shared = _paths(model.electra) & _paths(model.generator)
    expected = {
        "embeddings": {p for p in _paths(model.electra) if "/embeddings/" in p},
        "token_and_position_embeddings": {
            "electra/embeddings/word_embeddings",
            "electra/embeddings/position_embeddings",
        },
        "token_embeddings": {"electra/embeddings/word_embeddings"},
        "gradient_disentangled": set(),
        "none": set(),
        "all": _paths(model.electra),
    }
    assert shared == expected[sharing]


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
    shared = "electra/embeddings/word_embeddings"
    generator = "generator/encoder/layer_0/output/dense/kernel"
    whole, alone = (gradients[step][shared].numpy() for step in (20, 0))
    for step, share in {0: 0, 5: 0, 8: 0.3, 15: 1, 20: 1}.items():
        found = gradients[step]
        np.testing.assert_allclose(
            found[head], share * gradients[20][head], rtol=1e-4, atol=1e-7
        )
        np.testing.assert_allclose(
            found[shared], alone + share * (whole - alone), atol=1e-4
        )
        np.testing.assert_array_equal(found[generator], gradients[0][generator])
    keys = TrainingKeys(KEYS, tf.fill([8], 5 / 20))
    from_the_start = _model(disc_weight_steps=(0, 20), disc_weight=8.0)
    assert float(from_the_start.loss_factors(keys)["disc_loss"]) == 2.0


def test_variables_have_the_originals_names_and_shapes():
    stored = np.load(golden_arrays.HERE / "golden/model/small_like_vars.npz")
    expected = {name: array.shape for name, array in stored.items()}
    del expected["global_step"]
    sizes = {"hidden_size": 32, "embedding_size": 16, "intermediate_size": 64}
    config = tiny.config(
        **sizes, generator_hidden_size=0.25, max_position_embeddings=512
    )
    words = tuple(f"w{i}" for i in range(512 - 5))
    model = Electra(config, Vocabulary(tiny.SPECIALS + words))
    shapes = {v.path: tuple(v.shape) for v in model.trainable_variables}
    assert shapes == expected
