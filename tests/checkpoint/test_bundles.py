"""A checkpoint is complete or not there; the newest valid one is found."""

import os
import random
import resource
import shutil

import numpy as np
import pytest
import tensorflow as tf
from corpora import flip_bit

from electra_tf.checkpoint import bundles
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.util.errors import NonFiniteLossError, UserError

ARRAYS = {"a/b": np.arange(6.0).reshape(2, 3), "step": np.array(7, np.int64)}
_KERNEL = "electra/embeddings_project/kernel"


def _variables(value=0.0):
    """Returns the variables of a model: a weight, its slot and a step."""
    return {
        _KERNEL: tf.Variable(np.full([3, 2], value, np.float32)),
        f"{_KERNEL}/adam_m": tf.Variable(np.full([3, 2], -value, np.float32)),
        "global_step": tf.Variable(int(value), dtype=tf.int64),
    }


def _save_steps(directory, *steps, **options):
    """Saves checkpoints whose values are their steps."""
    for step in steps:
        checkpoints = Checkpoints(directory, _variables(step), **options)
        checkpoints.save(step)
    return checkpoints


def _restore(directory):
    """Restores into new variables; returns the step they all agree on."""
    variables = _variables(-1.0)
    step = Checkpoints(directory, variables).restore_latest()
    if step is not None:
        for name, expected in _variables(step).items():
            np.testing.assert_array_equal(variables[name], expected)
    return step


def _data(directory, step):
    return directory / f"model.ckpt-{step}.data-00000-of-00001"


def _index(directory, step):
    return directory / f"model.ckpt-{step}.index"


def test_tensorflow_finds_the_newest_checkpoint_and_its_variables(tmp_path):
    _save_steps(tmp_path / "a", 9, 10)
    assert _restore(tmp_path) is _restore(tmp_path / "missing") is None
    moved = shutil.move(tmp_path / "a", tmp_path / "b")
    path = tf.train.latest_checkpoint(str(moved))
    assert path == str(moved / "model.ckpt-10")
    shapes = {name: v.shape for name, v in _variables().items()}
    assert dict(tf.train.list_variables(path)) == shapes
    for state in ("", "junk"):  # the state file is never trusted
        (moved / "checkpoint").write_text(state)
        assert _restore(moved) == 10
    (moved / "checkpoint").unlink()
    assert _restore(moved) == 10


@pytest.mark.parametrize(
    ("keep_max", "milestones", "kept"),
    [(2, (), [4, 5]), (1, (2,), [2, 5]), (0, (), [1, 2, 3, 4, 5])],
)
def test_newest_and_milestones_are_kept(tmp_path, keep_max, milestones, kept):
    checkpoints = _save_steps(
        tmp_path, 1, 2, 3, 4, 5, keep_max=keep_max, milestones=milestones
    )
    assert checkpoints.steps() == kept
    state = tf.train.get_checkpoint_state(str(tmp_path))
    paths = state.all_model_checkpoint_paths
    assert [int(path.split("-")[-1]) for path in paths] == kept
    assert len(os.listdir(tmp_path)) == 2 * len(kept) + 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: os.truncate(_data(d, 2), 5),
        lambda d: os.truncate(_index(d, 2), 20),
        lambda d: _index(d, 2).write_bytes(b"junk" * 30),
        lambda d: _index(d, 2).unlink(),
        lambda d: _data(d, 2).unlink(),
        lambda d: shutil.copy(_data(d, 1), _data(d, 2)),
    ],
)
def test_a_damaged_checkpoint_is_passed_over(tmp_path, damage):
    _save_steps(tmp_path, 1, 2)
    damage(tmp_path)
    assert _restore(tmp_path) == 1
    _index(tmp_path, 1).unlink()
    with pytest.raises(UserError):  # a run never starts anew
        _restore(tmp_path)


def test_no_flipped_bit_is_ever_restored(tmp_path):
    _save_steps(tmp_path / "whole", 1, 2)
    positions = random.Random(0)
    for path in (_data, _index):
        size = path(tmp_path / "whole", 2).stat().st_size
        for position in positions.sample(range(size), min(size, 40)):
            copy = shutil.copytree(
                tmp_path / "whole", tmp_path / "copy", dirs_exist_ok=True
            )
            flip_bit(path(copy, 2), position)
            assert _restore(copy) in (1, 2)


def test_variables_that_differ_are_refused_and_none_is_assigned(tmp_path):
    _save_steps(tmp_path, 1)
    variables = _variables(7.0)
    variables["other"] = variables.pop(f"{_KERNEL}/adam_m")
    with pytest.raises(UserError):
        Checkpoints(tmp_path, variables).restore_latest()
    np.testing.assert_array_equal(variables[_KERNEL], np.full([3, 2], 7.0))


@pytest.mark.parametrize("moment", range(2))
def test_save_that_dies_between_two_renames_hurts_nothing(
    tmp_path, monkeypatch, moment
):
    checkpoints = _save_steps(tmp_path, 1, keep_max=1)
    replace, calls = type(checkpoints.directory).replace, []

    def dying_replace(source, target):
        if len(calls) == moment:
            raise KeyboardInterrupt  # stands for the death of the process
        calls.append(target)
        replace(source, target)

    monkeypatch.setattr(type(checkpoints.directory), "replace", dying_replace)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(2)
    monkeypatch.undo()
    assert checkpoints.steps() == [1]
    assert _restore(tmp_path) == 1
    _save_steps(tmp_path, 3, keep_max=1)
    files = [_data(tmp_path, 3), _index(tmp_path, 3)]
    assert sorted(tmp_path.iterdir()) == [tmp_path / "checkpoint", *files]


def test_full_disk_is_named_and_leaves_the_older_checkpoint(tmp_path):
    _save_steps(tmp_path, 1)
    before = sorted(os.listdir(tmp_path))
    large = {"large": tf.Variable(tf.zeros([100_000]))}
    checkpoints = Checkpoints(tmp_path, large, keep_max=1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError):
            checkpoints.save(2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(os.listdir(tmp_path)) == before
    assert _restore(tmp_path) == 1


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_weights_that_are_not_finite_are_never_saved_or_restored(tmp_path, bad):
    checkpoints = _save_steps(tmp_path, 1)
    slot = checkpoints.variables[f"{_KERNEL}/adam_m"]
    slot.assign([[0, 1], [2, bad], [3, 4]])
    for refuse in (checkpoints.save, checkpoints.check_finite):  # chief, others
        with pytest.raises(NonFiniteLossError):
            refuse(2)
    assert checkpoints.steps() == [1] and _restore(tmp_path) == 1
    arrays = {name: v.numpy() for name, v in checkpoints.variables.items()}
    bundles.write(tmp_path / "model.ckpt-3", arrays)
    with pytest.raises(NonFiniteLossError):
        _restore(tmp_path)


def test_a_store_holds_what_a_directory_does(tmp_path):
    directory = f"ram:/{tmp_path}"
    _save_steps(directory, 1, 2, 3, keep_max=1, milestones={1})
    assert Checkpoints(directory, {}).steps() == [1, 3]
    assert _restore(directory) == 3
    assert str(bundles.find(directory)) == f"{directory}/model.ckpt-3"
    assert bundles.read(f"{directory}/model.ckpt-1")["global_step"] == 1


@pytest.mark.parametrize(
    "name", ["", "x", "x.index", "x.meta", "x.data-00000-of-00001"]
)
def test_a_bundle_is_found_by_each_of_its_names(tmp_path, name):
    bundles.write(tmp_path / "x", ARRAYS)
    assert bundles.find(tmp_path / name) == tmp_path / "x"


def test_an_id_of_the_hub_is_told_how_to_download_it():
    with pytest.raises(UserError, match="hf download google/a-b.c --local-dir"):
        bundles.find("google/a-b.c,google/b")


def test_a_path_without_one_readable_bundle_is_refused(tmp_path):
    for path in (tmp_path / "x", tmp_path):
        with pytest.raises(UserError):
            bundles.find(path)
    for name in ("x", "y"):
        bundles.write(tmp_path / name, ARRAYS)
    with pytest.raises(UserError):
        bundles.find(tmp_path)
    (tmp_path / "z.index").write_bytes(b"\x80\x04pickled, or whatever")
    with pytest.raises(OSError):
        bundles.read(tmp_path / "z")
