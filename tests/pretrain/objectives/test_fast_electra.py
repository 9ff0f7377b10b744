"""A frozen generator whose samples become harder over time."""

import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_language
from tiny import KEYS

from electra_tf.checkpoint import architecture, checkpoint_formats
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.pretrain import initialization
from electra_tf.pretrain.random_keys import TrainingKeys
from electra_tf.util.errors import UserError

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
    model = _model(
        initial_temperature=3.0, temperature_time=0.25, temperature=last
    )
    progress = np.array([0, 0.25, 0.5, 1], np.float32)
    keys = TrainingKeys(KEYS[:4], tf.constant(progress))
    expected = last + (3 - last) * np.exp(-progress / 0.25)
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


def test_an_update_leaves_the_generator_as_it_is():
    model = _model(
        generator_sharing="gradient_disentangled", num_warmup_steps=0
    )
    start = tiny.arrays(model)
    model.update(tiny.batch())
    for name, array in tiny.arrays(model).items():
        is_frozen = name.startswith(GENERATOR)
        assert np.array_equal(array, start[name]) == is_frozen, name


@BOTH
def test_a_checkpoint_has_slots_for_all_or_none_of_a_network(sharing, tmp_path):
    model = _model(generator_sharing=sharing, embedding_size=8)
    read = checkpoint_formats.read(
        _save(model, tmp_path / "run"),
        num_attention_heads=2,
        generator_num_attention_heads=1,
    )
    assert read.architecture.generator_sharing == sharing
    shapes = {name: array.shape for name, array in read.arrays.items()}
    del shapes["electra/encoder/layer_0/output/dense/kernel/adam_m"]
    with pytest.raises(UserError, match="all weights of a network or for none"):
        architecture.infer(shapes)


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
    read = checkpoint_formats.read(path, num_attention_heads=1)
    checkpoint_formats.write(str(tmp_path / "hf"), read, "hf")
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


def test_a_trained_generator_may_start_from_a_checkpoint_too(tmp_path):
    source = _model(objective="electra", generator_sharing="embeddings", seed=5)
    path = _save(source, tmp_path / "run")
    model = _model(
        objective="electra",
        generator_sharing="embeddings",
        generator_checkpoint=path,
    )
    start = initialization.read_initial_weights(model.config)
    initialization.assign_initial_weights(model, start)
    found, expected = tiny.arrays(model), tiny.arrays(source)
    for name, array in found.items():
        is_loaded = name.startswith((*GENERATOR, "electra/embeddings/"))
        if is_loaded and "adam" not in name:
            np.testing.assert_array_equal(array, expected[name])
    name = "electra/encoder/layer_0/output/dense/kernel"
    assert np.any(found[name] != expected[name])


def test_a_frozen_generator_without_fitting_weights_is_refused(tmp_path):
    with pytest.raises(UserError, match="generator_checkpoint"):
        initialization.read_initial_weights(_model().config)
    source = _model(objective="electra", generator_sharing="embeddings")
    path = _save(source, tmp_path / "run")
    with pytest.raises(UserError, match="generator_width=8"):
        config = tiny.config(
            **FAST,
            generator_sharing="gradient_disentangled",
            generator_hidden_size=0.25,
            generator_checkpoint=path,
        )
        initialization.read_generator(config)
    read = checkpoint_formats.read(
        path, num_attention_heads=2, generator_num_attention_heads=1
    )
    checkpoint_formats.write(
        str(tmp_path / "d"), read, "electra_tf", networks=["discriminator"]
    )
    model = _model(init_checkpoint=str(tmp_path / "d"), init_partially=True)
    with pytest.raises(UserError, match="none for generator/embeddings"):
        start = initialization.read_initial_weights(model.config)
        initialization.assign_initial_weights(model, start)
    with pytest.raises(UserError, match="must hold a generator"):
        initialization.read_generator(
            tiny.config(generator_checkpoint=str(tmp_path / "d"))
        )


@pytest.mark.parametrize(
    "leaves",
    [
        {"objective": "mlm_sentence"},
        {"objective": "script"},
        {"objective": "electric"},
        {"generator_type": "two_tower"},
        {"generator_type": "unigram"},
    ],
)
def test_generator_checkpoint_needs_a_generator_that_fills_masks(leaves):
    config = tiny.config(generator_checkpoint="somewhere", **leaves)
    with pytest.raises(UserError, match="a separate masked language model"):
        initialization.read_initial_weights(config)


@pytest.mark.slow
def test_fast_electra_learns_a_tiny_language(tmp_path):
    source, terms = tiny_language.train(300, objective="electra")
    assert terms["masked_lm_accuracy"][-20:].mean() > 0.3  # by chance 0.1
    leaves = {
        **tiny_language.SIZES,
        "objective": "fast_electra",
        "generator_sharing": "gradient_disentangled",
        "num_train_steps": 300,
        "generator_checkpoint": _save(source, tmp_path / "run"),
    }
    model = tiny.model(tiny.config(**leaves), tiny_language.VOCABULARY)
    initialization.assign_initial_weights(
        model, initialization.read_initial_weights(model.config)
    )
    terms = tiny_language.train_more(model, 300)
    accuracy = terms["sampled_masked_lm_accuracy"]
    assert accuracy[:20].mean() < accuracy[-20:].mean()  # ever harder
    assert tiny_language.evaluate(model)["disc_auc"] > 0.9
