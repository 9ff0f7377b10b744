"""Runs with damaged files, a loss that is not finite, or too little memory."""

import logging
import os
import shutil
import subprocess
import time

import corpora
import keras
import numpy as np
import pretraining_command
import pytest
import run_files
import tensorflow as tf
import tiny

from electra_tf.configure_pretraining import RunConfig
from electra_tf.model.losses import LossTerm
from electra_tf.pretrain import run as pretraining_run
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.util.errors import (
    ExitCode,
    UserError,
    explain,
)

pytestmark = pytest.mark.faults

NUM_STEPS = 60
NEWEST = 40
FLAGS = {
    "objective": "mlm",
    "num_hidden_layers": 1,
    "max_seq_length": 32,
    "vocab_size": 300,
    "num_shards": 4,
    "num_train_steps": NUM_STEPS,
    "iterations_per_loop": 1,
    "save_checkpoints_steps": 20,
    "keep_checkpoint_max": 0,
    "checkpoint_milestones": (1.0,),
    "hidden_dropout_prob": 0.1,
    "do_eval": False,
    "do_export": False,
    "num_samples": 0,
}


def _run(data_dir, name, callbacks=(), **leaves):
    run_files.run(data_dir, name, callbacks, **FLAGS | leaves)


def _tensors(data_dir, name):
    return run_files.tensors(data_dir / "models" / name, NUM_STEPS)


def _assert_same_end(data_dir, name):
    expected = data_dir / "models" / "undisturbed"
    run_files.assert_same_end(data_dir / "models" / name, expected, NUM_STEPS)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A data directory with an undisturbed run of many epochs."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "corpus.txt").write_text(pretraining_command.text(8))
    _run(directory, "undisturbed")
    return directory


def _flip(path):
    """Flips a bit in the middle of a file."""
    corpora.flip_bit(path, path.stat().st_size // 2)


def _cut(path):
    os.truncate(path, path.stat().st_size // 2)


_DATA, _INDEX = (
    f"model.ckpt-{NEWEST}.{end}" for end in ("data-00000-of-00001", "index")
)


@pytest.mark.promise(
    "The newest checkpoint is cut off, has a flipped bit or lacks a file: the "
    "next start says so, goes on from the one before and ends with the same "
    "weights"
)
@pytest.mark.parametrize(
    ("name", "damage", "is_skipped"),
    [
        (_DATA, _cut, True),
        (_DATA, _flip, True),
        (_INDEX, _cut, True),
        (_INDEX, _flip, True),
        (_INDEX, os.remove, True),
        (_DATA, os.remove, True),
        ("checkpoint", _flip, False),
        ("checkpoint", lambda path: path.write_bytes(b"\xff\0junk"), False),
        ("metrics.jsonl", lambda path: path.write_bytes(b"\xff\0junk"), False),
    ],
)
def test_a_run_whose_newest_checkpoint_is_damaged_ends_with_the_same_bits(
    data_dir, tmp_path, caplog, capsys, name, damage, is_skipped
):
    models = data_dir / "models"
    damaged = models / f"damaged {tmp_path.name}"
    shutil.copytree(models / "undisturbed", damaged)
    for path in damaged.glob(f"model.ckpt-{NUM_STEPS}.*"):
        path.unlink()
    damage(damaged / name)
    with caplog.at_level(logging.WARNING):
        _run(data_dir, damaged.name)
    assert (f"ckpt-{NEWEST} is skipped" in caplog.text) == is_skipped
    start_step = 20 if is_skipped else NEWEST
    assert (
        f"Restored the checkpoint of step {start_step}"
        in capsys.readouterr().out
    )
    if name == "metrics.jsonl":
        expected = _tensors(data_dir, "undisturbed")
        tiny.assert_same(_tensors(data_dir, damaged.name), expected)
    else:
        _assert_same_end(data_dir, damaged.name)


def _files(data_dir):
    return sorted((data_dir / "pretrain_tfrecords").glob("pretrain_data*"))


def _swap(path):
    """Overwrites a file with another file of the data set."""
    other = next(x for x in sorted(path.parent.glob("*of-4")) if x != path)
    shutil.copy(other, path)


class _Damage(keras.callbacks.Callback):
    """Damages a file of records after a step.

    Attributes:
      at: time of the damage, by `time.monotonic`.
    """

    def __init__(self, step, damage):
        super().__init__()
        self.step = step
        self.damage = damage

    def on_epoch_end(self, step, logs=None):
        if step == self.step:
            self.damage()
            self.at = time.monotonic()


@pytest.fixture
def records(data_dir):
    """The files of records, restored afterwards."""
    files = _files(data_dir)
    contents = [path.read_bytes() for path in files]
    yield files
    for path, content in zip(files, contents, strict=True):
        path.write_bytes(content)


@pytest.mark.promise(
    "Records are cut off, have a flipped bit, are swapped or deleted before a "
    "start: it ends with exit code 2 and names the file"
)
@pytest.mark.parametrize("damage", [_cut, _flip, _swap, os.remove])
def test_a_start_names_the_file_of_records_that_is_damaged(
    data_dir, records, damage, tmp_path
):
    damage(records[1])
    with pytest.raises(UserError) as error:
        _run(data_dir, tmp_path.name)
    assert explain(error.value)[0] == ExitCode.BAD_INPUT
    assert records[1].name in str(error.value)
    assert not (data_dir / "models" / tmp_path.name / "metrics.jsonl").exists()


@pytest.mark.promise(
    "Records are cut off or have a flipped bit while a run trains: it ends "
    "with the name of the file, and goes on to the same weights once the file "
    "is back"
)
@pytest.mark.parametrize("damage", [_cut, _flip])
def test_a_run_names_the_file_of_records_that_is_damaged_during_training(
    data_dir, records, damage, tmp_path, record_property
):
    content, path = records[1].read_bytes(), records[1]
    callback = _Damage(5, lambda: damage(path))
    with pytest.raises(UserError) as error:
        _run(data_dir, tmp_path.name, [callback])
    record_property("seconds_to_message", time.monotonic() - callback.at)
    assert path.name in str(error.value)
    path.write_bytes(content)
    _run(data_dir, tmp_path.name)
    _assert_same_end(data_dir, tmp_path.name)


@pytest.mark.promise(
    "Another vocabulary in the place of the one that a run began with, and "
    "records to match: the run does not go on with words that its weights do "
    "not know"
)
def test_a_run_never_resumes_with_another_vocabulary(data_dir, tmp_path):
    shutil.copytree(data_dir, tmp_path, dirs_exist_ok=True)
    vocab_file = tmp_path / "vocab.txt"
    *words, last_but_one, last = vocab_file.read_text().splitlines()
    vocab_file.write_text("\n".join([*words, last, last_but_one]) + "\n")
    shutil.rmtree(tmp_path / "pretrain_tfrecords")
    corpus = (str(data_dir / "corpus.txt"),)
    message = "vocabulary. .*--init_checkpoint=.*undisturbed to continue"
    with pytest.raises(UserError, match=f"inputs: records of 32 .*{message}"):
        _run(tmp_path, "undisturbed", corpus=corpus)
    run = RunConfig(data_dir=str(tmp_path), model_name="undisturbed")
    with pytest.raises(UserError, match=f"inputs: {message}"):
        pretraining_run.load(run)


def _break(monkeypatch, step):
    """Makes the loss of an update NaN, in the graph."""
    compute = PretrainingModel.compute_losses

    def broken(self, inputs, *, keys, training):
        metrics = compute(self, inputs, keys=keys, training=training)
        is_bad = self.optimizer.iterations == step - 1
        factor = tf.where(is_bad, np.nan, 1.0)
        return {
            k: LossTerm(v.total * factor, v.weight) for k, v in metrics.items()
        }

    monkeypatch.setattr(PretrainingModel, "compute_losses", broken)


@pytest.mark.promise(
    "Too little memory, where the system ends a process without a message: a "
    "warning before has named the batch, what there is and the flags to lower"
)
def test_a_run_without_enough_memory_has_named_the_flags_to_lower(
    data_dir, tmp_path
):
    words = pretraining_command.words_of(
        data_dir,
        tmp_path.name,
        "--train_batch_size=65536",
        "--hidden_size=256",
        "--held_out_fraction=0.01",  # as the data were built
    )
    done = subprocess.run(
        ["bash", "-c", 'ulimit -v 4000000; exec "$@"', "-", *words],
        env=pretraining_command.environment(),
        cwd=data_dir,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
    )
    assert done.returncode not in (0, ExitCode.BAD_INPUT), done.stdout
    for phrase in (
        "An update of 65,536 rows of 32 tokens",
        "`ulimit -v` leaves",
    ):
        assert phrase in done.stdout
    assert "--train_batch_size or --max_seq_length" in done.stdout
