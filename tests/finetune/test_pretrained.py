"""The pre-trained encoder, and the defaults that it determines."""

import dataclasses

import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.architecture import DISCRIMINATOR_HEAD
from electra_tf.finetune import pretrained
from electra_tf.finetune.preprocessing import TextTokenizer


def _write(directory, **changes):
    """Writes an encoder with heads and optimizer slots; returns its path."""
    weights = tiny.weights()
    shapes = {
        "task_specific/mnli/dense": (16, 3),
        f"{DISCRIMINATOR_HEAD}/dense": (16, 16),
        f"{DISCRIMINATOR_HEAD}/dense_1": (16, 1),
    }
    arrays = {"global_step": np.array(7), **weights.arrays}
    for name, shape in shapes.items():
        arrays[f"{name}/kernel"] = np.ones(shape, np.float32)
        arrays[f"{name}/bias"] = np.ones(shape[1:], np.float32)
    for name in {*arrays} - {"global_step"}:
        arrays[f"{name}/adam_m"] = arrays[f"{name}/adam_v"] = 0 * arrays[name]
    architecture = dataclasses.replace(
        weights.architecture,
        heads=(DISCRIMINATOR_HEAD,),
        tasks={"mnli": {"dense": (16, 3)}},
    )
    written = dataclasses.replace(
        weights, arrays=arrays, architecture=architecture, **changes
    )
    loading.write(str(directory), written, "electra_tf")
    return str(directory)


def _read(path, **leaves):
    return pretrained.read(tiny.config(init_checkpoint=path, **leaves))


def test_the_encoder_is_taken_without_heads_and_slots(tmp_path):
    read = _read(_write(tmp_path / "mnli"))
    expected = tiny.weights().arrays
    assert read.arrays.keys() - {"global_step"} == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(read.arrays[name], value)


def test_the_encoder_defaults_to_that_of_the_model_directory(tmp_path):
    tiny.write_model(tmp_path)
    read = pretrained.read(tiny.config(tmp_path))
    assert read.architecture.encoder == tiny.ENCODER


def test_tokenizer_and_dropout_are_those_of_pre_training(tmp_path):
    path = _write(tmp_path / "cased", do_lower_case=False, strip_accents=None)
    read = _read(path)
    assert not TextTokenizer.of(read).do_lower_case
    assert TextTokenizer.of(read).strip_accents
    assert read.architecture.encoder.hidden_dropout_prob == 0.1
    given = _read(path, do_lower_case="true", strip_accents="false")
    assert TextTokenizer.of(given).do_lower_case
    assert not TextTokenizer.of(given).strip_accents


def _weights(dropout=0.1, **sizes):
    read = tiny.weights()
    encoder = dataclasses.replace(
        tiny.ENCODER,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **sizes,
    )
    architecture = dataclasses.replace(read.architecture, encoder=encoder)
    return dataclasses.replace(read, architecture=architecture)


def _resolved(weights, **leaves):
    leaves = {"learning_rate": None, **leaves}
    return pretrained.resolve_defaults(tiny.config(**leaves), weights)


@pytest.mark.parametrize(("before", "expected"), [(0.0, 0.1), (0.2, 0.2)])
def test_default_rates_follow_hidden_size_and_pre_training_dropout(
    before, expected
):
    config, weights = _resolved(_weights(before, hidden_size=128))
    assert config.optimizer.learning_rate == 1e-3
    assert config.optimizer.layerwise_lr_decay == 0.8
    for part in (config.training, weights.architecture.encoder):
        assert part.hidden_dropout_prob == expected
        assert part.attention_probs_dropout_prob == expected


def test_flags_win_over_the_encoder():
    given = {
        "learning_rate": 5e-4,
        "layerwise_lr_decay": 0.5,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.3,
        "max_query_length": 7,
        "doc_stride": 9,
    }
    config, weights = _resolved(_weights(), **given)
    encoder = weights.architecture.encoder
    assert encoder.hidden_dropout_prob == 0.0
    assert encoder.attention_probs_dropout_prob == 0.3
    for part in (config.optimizer, config.training, config.qa):
        for field in dataclasses.fields(part):
            if field.name in given:
                assert getattr(part, field.name) == given[field.name]
    assert "learning_rate" not in pretrained.resolved_flags(
        tiny.config(**given), config
    )


def test_questions_and_strides_fit_the_positions():
    qa = _resolved(_weights(max_position_embeddings=64), task_names=("squad",))
    assert (qa[0].qa.max_query_length, qa[0].qa.doc_stride) == (16, 22)
    own = {"task_names": ("faq",), "task_kind": "qa", "max_seq_length": 48}
    config, _ = _resolved(_weights(max_position_embeddings=64), **own)
    assert (config.qa.max_query_length, config.qa.doc_stride) == (12, 16)
    config, _ = _resolved(_weights())  # no task of questions
    assert (config.qa.max_query_length, config.qa.doc_stride) == (64, 128)


def _changed(weights, name="electra/embeddings/word_embeddings"):
    arrays = {key: array.copy() for key, array in weights.arrays.items()}
    arrays[name].flat[-1] = np.nextafter(arrays[name].flat[-1], np.inf)
    return dataclasses.replace(weights, arrays=arrays)


def test_the_digest_of_an_encoder_is_of_its_weights_and_tokenizer():
    weights = tiny.weights()
    digest = pretrained.digest(weights)
    steps = {"global_step": np.array(7)}
    same = [
        tiny.weights(),
        dataclasses.replace(weights, origin="elsewhere"),
        dataclasses.replace(weights, arrays=weights.arrays | steps),
    ]
    assert {*map(pretrained.digest, same)} == {digest}
    words = tiny.VOCABULARY.tokens
    vocabulary = dataclasses.replace(
        tiny.VOCABULARY, tokens=(*words[:-1], "##z")
    )
    others = [
        _changed(weights),
        dataclasses.replace(weights, vocabulary=vocabulary),
        dataclasses.replace(weights, do_lower_case=False),
    ]
    assert len({*map(pretrained.digest, others)} | {digest}) == 4
