"""What a run does when files, numbers or a disk fail."""

import contextlib
import os
import shutil
import subprocess

import keras
import numpy as np
import pretraining_command
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.losses import LossTerm
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.util.errors import (
    ExitCode,
    NonFiniteLossError,
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
    "hidden_dropout_prob": 0.1,
    "do_eval": False,
    "do_export": False,
}


def _run(data_dir, name, callbacks=(), **leaves):
    pretraining_command.train(data_dir, name, callbacks, **FLAGS | leaves)


def _assert_same_end(data_dir, name):
    found, expected = (
        pretraining_command.tensors(data_dir, x, NUM_STEPS)
        for x in (name, "undisturbed")
    )
    tiny.assert_same(found, expected)
    logs = (pretraining_command.log(data_dir, x) for x in (name, "undisturbed"))
    assert next(logs) == next(logs)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A data directory with an undisturbed run of many epochs."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "corpus.txt").write_text(pretraining_command.text(8))
    _run(directory, "undisturbed")
    return directory


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _cut(path):
    os.truncate(path, path.stat().st_size // 2)


_DATA, _INDEX = (
    f"model.ckpt-{NEWEST}.{end}" for end in ("data-00000-of-00001", "index")
)


@pytest.mark.parametrize(
    ("name", "damage", "start_step"),
    [
        (_DATA, _cut, 30),
        (_DATA, _flip, 30),
        (_INDEX, _flip, 30),
        (_INDEX, os.remove, 30),
        ("checkpoint", lambda path: path.write_bytes(b"\xff\0junk"), NEWEST),
    ],
)
def test_a_run_goes_on_from_the_newest_whole_checkpoint(
    data_dir, tmp_path, capsys, name, damage, start_step
):
    models = data_dir / "models"
    damaged = models / f"damaged {tmp_path.name}"
    shutil.copytree(models / "undisturbed", damaged)
    for path in damaged.glob(f"model.ckpt-{NUM_STEPS}.*"):
        path.unlink()
    damage(damaged / name)
    _run(data_dir, damaged.name)
    assert f"checkpoint of step {start_step}" in capsys.readouterr().out
    _assert_same_end(data_dir, damaged.name)


@pytest.fixture
def records(data_dir):
    """The files of records, restored afterwards."""
    files = sorted((data_dir / "pretrain_tfrecords").glob("pretrain_data*"))
    contents = [path.read_bytes() for path in files]
    yield files
    for path, content in zip(files, contents, strict=True):
        path.write_bytes(content)


@pytest.mark.parametrize("damage", [_cut, os.remove])
def test_a_start_names_the_file_of_records_that_is_damaged(
    data_dir, records, damage, tmp_path
):
    damage(records[1])
    errors = (UserError, tf.errors.OpError)
    with pytest.raises(errors, match=records[1].name) as error:
        _run(data_dir, tmp_path.name)
    assert explain(error.value)[0] == ExitCode.BAD_INPUT


def test_a_run_names_the_file_of_records_that_is_damaged_and_goes_on_later(
    data_dir, records, tmp_path
):
    content, path = records[1].read_bytes(), records[1]
    callback = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda step, logs: _flip(path) if step == 5 else None
    )
    with pytest.raises(UserError, match=path.name):
        _run(data_dir, tmp_path.name, [callback])
    path.write_bytes(content)
    _run(data_dir, tmp_path.name)
    _assert_same_end(data_dir, tmp_path.name)


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


def test_a_run_ends_at_nan_with_nothing_lost(data_dir, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        _break(patch, 31)
        with pytest.raises(NonFiniteLossError, match="31"):
            _run(data_dir, tmp_path.name)
    _run(data_dir, tmp_path.name)
    _assert_same_end(data_dir, tmp_path.name)


def test_a_run_on_a_full_disk_ends_with_its_code_and_goes_on(tmp_path):
    disk, backup = tmp_path / "disk", tmp_path / "backup"
    disk.mkdir()
    backup.mkdir()
    (backup / "corpus.txt").write_text(pretraining_command.text())

    def run(size):
        script = (
            f"mount -t tmpfs -o size={size} none {disk} || exit 99; "
            f'cp -r {backup}/. {disk}; "$@"; code=$?; '
            f"cp -r {disk}/. {backup}; exit $code"
        )
        words = pretraining_command.words_of(disk, "full")
        return subprocess.run(
            ["unshare", "-rm", "bash", "-c", script, "-", *words],
            env=pretraining_command.environment(),
            capture_output=True,
            text=True,
        )

    with contextlib.suppress(FileNotFoundError):
        if (done := run("300k")).returncode != 99:
            assert done.returncode == ExitCode.NO_SPACE, done.stderr
            assert "Traceback" not in done.stderr
            done = run("64m")
            assert done.returncode == 0, done.stderr
            return
    pytest.skip("needs user namespaces: unshare -rm")
