import dataclasses
import pathlib
import shutil

import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.checkpoint import checkpoint_formats
from electra_tf.checkpoint.architecture import DISCRIMINATOR_HEAD
from electra_tf.finetune import pretrained
from electra_tf.util.errors import UserError


def _write(directory, **changes):
    """Writes a fine-tuned encoder; returns its path."""
    weights = tiny.weights()
    heads = {
        "task_specific/mnli/dense/kernel": np.ones((16, 3), np.float32),
        "task_specific/mnli/dense/bias": np.ones(3, np.float32),
        f"{DISCRIMINATOR_HEAD}/dense/kernel": np.ones((16, 16), np.float32),
        f"{DISCRIMINATOR_HEAD}/dense/bias": np.ones(16, np.float32),
        f"{DISCRIMINATOR_HEAD}/dense_1/kernel": np.ones((16, 1), np.float32),
        f"{DISCRIMINATOR_HEAD}/dense_1/bias": np.ones(1, np.float32),
    }
    arrays = {**weights.arrays, **heads}
    arrays |= {f"{name}/adam_m": 0 * x for name, x in arrays.items()}
    arrays |= {
        name.replace("adam_m", "adam_v"): x for name, x in arrays.items()
    }
    arrays["global_step"] = np.array(7)
    architecture = dataclasses.replace(
        weights.architecture,
        heads=(DISCRIMINATOR_HEAD,),
        tasks={"mnli": {"dense": (16, 3)}},
    )
    written = dataclasses.replace(
        weights, arrays=arrays, architecture=architecture, **changes
    )
    checkpoint_formats.write(str(directory), written, "electra_tf")
    return str(directory)


def _read(path, **leaves):
    return pretrained.read(tiny.config(init_checkpoint=path, **leaves))


def test_the_encoder_is_taken_without_heads_and_slots(tmp_path):
    read = _read(_write(tmp_path / "mnli"))
    expected = tiny.weights().arrays
    assert read.arrays.keys() - {"global_step"} == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(read.arrays[name], value)


def test_it_is_the_model_directorys_unless_another_is_given(tmp_path):
    tiny.write_model(tmp_path)
    read = pretrained.read(tiny.config(tmp_path))
    assert read.architecture.encoder == tiny.ENCODER


def test_a_trial_stands_for_the_model_that_it_ended_with(tmp_path):
    trial = tmp_path / "sst_model_1"
    expected = pathlib.Path(tiny.write_trained(trial / "model", "sst", seed=3))
    shutil.copy(expected / "architecture.json", trial / "config.json")
    for path in expected.glob("model.ckpt-*"):  # the newest weights
        shutil.copy(path, trial / path.name.replace("ckpt-0", "ckpt-9"))
    read = _read(str(trial))
    assert pathlib.Path(read.origin).parent == expected
    assert read.architecture.encoder.num_attention_heads == 2


def test_tokenizer_and_dropout_are_those_of_pre_training(tmp_path):
    path = _write(tmp_path / "cased", do_lower_case=False, strip_accents=None)
    read = _read(path)
    assert not pretrained.tokenizer(read).do_lower_case
    assert pretrained.tokenizer(read).strip_accents
    assert read.architecture.encoder.hidden_dropout_prob == 0.1
    given = _read(path, do_lower_case="true", strip_accents="false")
    assert pretrained.tokenizer(given).do_lower_case
    assert not pretrained.tokenizer(given).strip_accents


def test_the_vocabulary_must_be_known_and_fit(tmp_path):
    path = _write(tmp_path / "unknown", vocabulary=None)
    with pytest.raises(UserError, match="Received: none.*--vocab_file"):
        _read(path)
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_bytes(tiny.VOCABULARY.content)
    assert _read(path, vocab_file=str(vocab_file)).vocabulary == tiny.VOCABULARY
    vocab_file.write_bytes(tiny.VOCABULARY.content + b"more\n")
    with pytest.raises(UserError, match="at most 16 tokens"):
        _read(path, vocab_file=str(vocab_file))
