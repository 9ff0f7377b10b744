"""Checkpoints in a store survive errors of the store and killed saves."""

import copy

import fake_store
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.checkpoint import bundles, checkpoint_formats
from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.util import storage
from electra_tf.util.errors import UserError
from electra_tf.util.store_requests import StoreError

DIRECTORY = "fake://bucket/run"
LAGS = (0, 4, 40)  # steps; a save makes about 15


def checkpoints(value=0.0, **options):
    """Returns the checkpoints of two variables that hold a value."""
    variables = {
        "kernel": tf.Variable(np.full([3, 2], value, np.float32)),
        "global_step": tf.Variable(int(value), dtype=tf.int64),
    }
    return Checkpoints(DIRECTORY, variables, **{"keep_max": 1, **options})


def save(step, **options):
    checkpoints(step, **options).save(step)


def restore():
    """Restores the newest checkpoint; returns its step, which all of it has."""
    found = checkpoints(-1.0)
    step = found.restore_latest()
    assert (found.variables["kernel"].numpy() == step).all()
    assert found.variables["global_step"].numpy() == step
    return step


def test_a_store_holds_what_a_directory_does(tmp_path):
    steps = (1, 2, 3)
    for directory in (str(tmp_path), f"ram://{tmp_path}"):
        variables = {"kernel": tf.Variable(tf.zeros([3]))}
        written = Checkpoints(directory, variables, keep_max=1, milestones={1})
        assert written.restore_latest() is None
        for step in steps:
            variables["kernel"].assign(tf.fill([3], float(step)))
            path = written.save(step)
        assert str(path) == f"{directory}/model.ckpt-3"
        assert written.steps() == [1, 3]
    names = [
        sorted(storage.find(root, ["*"]))
        for root in (str(tmp_path), f"ram://{tmp_path}")
    ]
    assert len(names[0]) == 5
    for local_path, remote_path in zip(*names, strict=True):
        assert remote_path == f"ram://{local_path}"
        assert storage.read_bytes(remote_path) == storage.read_bytes(local_path)
    assert bundles.find(f"ram://{tmp_path}") == storage.StorePath(path)
    with pytest.raises(UserError, match="must be a checkpoint.*nothing at"):
        checkpoint_formats.read(f"ram://{tmp_path}/none")
    with pytest.raises(UserError, match="Hugging Face's must be on this"):
        checkpoint_formats.read(f"ram://{tmp_path}", "hf")


@pytest.mark.parametrize("lag", LAGS)
def test_a_kill_anywhere_leaves_the_old_or_the_new_one(monkeypatch, lag):
    store = fake_store.install(monkeypatch, lag)
    save(1)
    save(2)
    before = copy.copy(store)
    found = []
    for number in range(1, 100):
        store.__dict__.update(copy.deepcopy(before.__dict__))
        store.on_step = fake_store.kill_at(store.num_steps + number)
        try:
            save(3)
            break
        except fake_store.Killed:
            store.on_step = lambda _: None
        prefixes = [x[:-6] for x in store.files if x.endswith(bundles.INDEX)]
        assert all(x + bundles.DATA in store.files for x in prefixes)
        found.append(restore())
        save(4)
        assert restore() == 4, f"killed at {number}"
    # Data and index, the unfinished state file, its rename, and the removal of
    # the old checkpoint's two files.
    assert number == 1 + 6 + 3 + 4 + 2
    assert found == sorted(found) and found[0] == 2 and found[-1] == 3
    assert lag or found == [2] * 5 + [3] * (number - 6)
    assert restore() == 3


def test_data_whose_index_is_not_listed_yet_is_not_swept(monkeypatch):
    store = fake_store.install(monkeypatch)
    save(1)
    del store.files[f"{DIRECTORY}/checkpoint"]
    listdir, whole = store.listdir, dict(store.files)
    store.listdir = lambda path: [x for x in listdir(path) if "index" not in x]
    save(2, keep_max=0)
    assert whole.items() <= store.files.items()


@pytest.mark.parametrize("lag", LAGS)
def test_a_transient_error_at_any_step_changes_no_file(monkeypatch, lag):
    store = fake_store.install(monkeypatch, lag)
    save(1)
    whole = store.num_steps
    before = copy.deepcopy(store.__dict__)
    save(2)
    expected, num_steps = store.files, store.num_steps - whole
    for number in range(1, 1 + num_steps):
        store.__dict__.update(copy.deepcopy(before))
        store.on_step = fake_store.fail_at({whole + number})
        save(2)
        assert store.files == expected, f"an error at {number}"


def test_a_write_that_is_cut_without_an_error_is_made_again(monkeypatch):
    store = fake_store.install(monkeypatch)
    save(1)
    write, cuts = store.write, []

    def cut(path, content):
        write(path, content[: 9 if len(cuts) % 2 else None])
        cuts.append(path)

    store.write = cut
    cuts.append("the first is cut")
    save(2)
    assert restore() == 2 and len(set(cuts)) < len(cuts)


def test_a_store_that_stays_away_is_named_and_keeps_the_old_one(monkeypatch):
    store = fake_store.install(monkeypatch)
    save(1)
    old_files = {k: v for k, v in store.files.items() if "ckpt-1" in k}
    assert len(old_files) == 2
    for first in range(1, 7):  # of data and index
        store.on_step = fake_store.fail_at(range(store.num_steps + first, 999))
        with pytest.raises(StoreError, match="fake:.*2.*5 retries.*is away"):
            save(2)
        store.on_step = lambda _: None
        assert restore() in (1, 2)
        assert old_files.items() <= store.files.items()
        store.num_steps = 0
    save(3)
    assert restore() == 3


def test_a_store_that_stays_away_is_no_damage(monkeypatch, caplog):
    store = fake_store.install(monkeypatch)
    save(1, keep_max=2)
    save(2, keep_max=2)
    for number in range(1, 6):
        store.num_reads = 0
        store.on_read = fake_store.fail_at({number})
        assert restore() == 2
        store.num_reads = 0
        store.on_read = fake_store.fail_at(range(number, 999))
        with pytest.raises(StoreError, match="must be in a store that can"):
            restore()
    assert "is skipped" not in caplog.text


def test_a_damaged_checkpoint_in_a_store_is_skipped(monkeypatch, caplog):
    store = fake_store.install(monkeypatch)
    save(1, keep_max=2)
    save(2, keep_max=2)
    whole = store.files
    paths = [
        path for path in whole if path.startswith(f"{DIRECTORY}/model.ckpt-2")
    ]
    assert len(paths) == 2
    for path in paths:
        store.files = whole | {path: whole[path][:-9]}
        assert restore() == 1
        assert "model.ckpt-2 is skipped" in caplog.text
        caplog.clear()
