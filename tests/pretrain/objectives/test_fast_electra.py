"""A frozen generator whose samples become harder over time."""

import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.pretrain import initialization
from electra_tf.pretrain.random_keys import TrainingKeys

FAST = {"objective": "fast_electra", "num_hidden_layers": 1}
GENERATOR = ("generator/", "generator_predictions/")
BOTH = pytest.mark.parametrize("sharing", ["none", "gradient_disentangled"])


def _model(**leaves):
    leaves = {"generator_sharing": "none", **FAST, **leaves}
    return tiny.model(tiny.config(**leaves))


def _save(model, directory):
    variables = tiny.checkpoint_variables(model)
    Checkpoints(directory, variables).save(3)
    (directory / "vocab.txt").write_bytes(tiny.VOCABULARY.content)
    return str(directory)


@pytest.mark.parametrize("last", [1.0, 0.5])
def test_the_temperature_falls_exponentially(last):
    model = _model(temperature=last)
    progress = np.array([0, 0.25, 0.5, 1], np.float32)
    keys = TrainingKeys(KEYS[:4], tf.constant(progress))
    expected = last + (2 - last) * np.exp(-progress / 0.1)
    found = model.temperature(keys)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(
        model.temperature(KEYS), [expected[-1:]], rtol=1e-5
    )


@BOTH
def test_a_generator_that_is_not_trained_has_no_dropout_and_no_slots(sharing):
    model = _model(generator_sharing=sharing, hidden_dropout_prob=0.1)
    inputs = tiny.batch()
    in_evaluation = model.corrupt(inputs, keys=KEYS, training=False)
    in_training = model.corrupt(inputs, keys=KEYS, training=True)
    np.testing.assert_array_equal(
        in_training.mlm_logits, in_evaluation.mlm_logits
    )
    frozen = {v.path for v in model.non_trainable_weights}
    assert all(path.startswith(GENERATOR) for path in frozen)
    assert not any(
        v.path.startswith(GENERATOR) for v in model.trainable_variables
    )
    slots = {name for name in tiny.arrays(model) if name.endswith("/adam_m")}
    assert slots == {f"{v.path}/adam_m" for v in model.trainable_variables}


def _sources(tmp_path):
    """Yields checkpoints that hold a generator, and flags that fit it."""
    joint = _model(objective="electra", generator_sharing="embeddings", seed=5)
    path = _save(joint, tmp_path / "beside")
    yield path, {"generator_sharing": "gradient_disentangled"}, joint
    mlm = tiny.config(
        objective="mlm",
        hidden_size=8,
        num_attention_heads=1,
        seed=6,
        num_hidden_layers=1,
    )
    mlm = tiny.model(mlm)
    path = _save(mlm, tmp_path / "alone")
    yield path, {"embedding_size": 16}, mlm
    read = loading.read(path, num_attention_heads=1)
    loading.write(str(tmp_path / "hf"), read, "hf")
    yield str(tmp_path / "hf"), {"embedding_size": 16}, mlm


def test_the_generator_starts_from_any_checkpoint_with_a_generator(tmp_path):
    for path, leaves, source in _sources(tmp_path):
        model = _model(generator_checkpoint=path, **leaves)
        start = initialization.read_initial_weights(model.config)
        initialization.assign_initial_weights(model, start)
        assert int(model.optimizer.iterations) == 0
        inputs = tiny.batch()
        encoder = getattr(source, "generator", source.electra)
        states = encoder(*inputs).sequence_output
        table = tf.convert_to_tensor(encoder.embeddings.word_embeddings)
        expected = source.generator_predictions(states, table)
        states = model.generator(*inputs).sequence_output
        np.testing.assert_allclose(
            model.generator_model.score(states), expected, atol=1e-5
        )
