"""What a run does when files, numbers or a disk fail."""

import contextlib
import os
import shutil
import subprocess

import corpora
import keras
import numpy as np
import pretraining_command
import pytest

from electra_tf.util.errors import ExitCode, NonFiniteLossError, UserError

pytestmark = pytest.mark.faults

NUM_STEPS = 60
FLAGS = {
    "vocab_size": 300,
    "num_shards": 4,
    "num_train_steps": NUM_STEPS,
    "iterations_per_loop": 1,
    "save_checkpoints_steps": 20,
    "keep_checkpoint_max": 0,
}


def _run(data_dir, name, callbacks=(), **leaves):
    pretraining_command.train(data_dir, name, callbacks, **FLAGS | leaves)


def _run_to_the_same_end(data_dir, name):
    _run(data_dir, name)
    pretraining_command.assert_same_end(
        data_dir, name, "undisturbed", NUM_STEPS
    )


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A data directory with an undisturbed run of many epochs."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "corpus.txt").write_text(pretraining_command.text(8))
    _run(directory, "undisturbed")
    return directory


def _flip(path):
    corpora.flip_bit(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [_flip, os.remove])
@pytest.mark.parametrize("kind", ["data-00000-of-00001", "index"])
def test_a_run_goes_on_from_the_newest_whole_checkpoint(
    data_dir, tmp_path, capsys, kind, damage
):
    models = data_dir / "models"
    damaged = models / f"damaged {tmp_path.name}"
    shutil.copytree(models / "undisturbed", damaged)
    for path in damaged.glob(f"model.ckpt-{NUM_STEPS}.*"):
        path.unlink()
    damage(damaged / f"model.ckpt-40.{kind}")
    _run_to_the_same_end(data_dir, damaged.name)
    assert "checkpoint of step 30" in capsys.readouterr().out


def test_a_run_names_the_file_of_records_that_is_damaged_and_goes_on_later(
    data_dir, tmp_path
):
    path = min((data_dir / "pretrain_tfrecords").glob("pretrain_data*"))
    content = path.read_bytes()
    callback = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda step, logs: _flip(path) if step == 5 else None
    )
    with pytest.raises(UserError, match=path.name):
        _run(data_dir, tmp_path.name, [callback])
    path.write_bytes(content)
    _run_to_the_same_end(data_dir, tmp_path.name)


class _Break(keras.callbacks.Callback):
    """Makes a weight NaN after an update."""

    def on_epoch_end(self, step, logs=None):
        if step == 33:
            weight = self.model.trainable_variables[0]
            weight.assign(weight * np.nan)


def test_a_run_ends_at_nan_with_nothing_lost(data_dir, tmp_path):
    with pytest.raises(NonFiniteLossError, match="34"):
        _run(data_dir, tmp_path.name, [_Break()])
    _run_to_the_same_end(data_dir, tmp_path.name)


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
