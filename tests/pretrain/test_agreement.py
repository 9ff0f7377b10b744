"""Workers compare all that affects the result of a run, and no more."""

import dataclasses

import pytest
import tensorflow as tf
import tiny

from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data.preparation import Prepared
from electra_tf.data.reading import RecordFile, Records
from electra_tf.pretrain import agreement


def test_settings_hold_all_fields_of_the_experiment_but_paths():
    config = tiny.config()
    fields = {
        field.name
        for part in dataclasses.fields(PretrainingConfig)
        if part.name not in PretrainingConfig.FREE_PARTS
        for field in dataclasses.fields(part.type)
    }
    assert fields - agreement.settings(config).keys() == agreement._PATH_FIELDS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 1.0),
        ("train_batch_size", 16),
        ("iterations_per_loop", 3),
        ("do_train", False),
        ("eval_batch_size", 16),
    ],
)
def test_settings_show_what_changes_updates_or_evaluation(name, value):
    base = agreement.settings(tiny.config())
    changed = agreement.settings(tiny.config(**{name: value}))
    assert {key for key in base if base[key] != changed[key]} == {name}


@pytest.mark.parametrize(
    ("name", "value"),
    [("data_dir", "copy"), ("num_processes", 3), ("tensorboard", True)],
)
def test_settings_leave_out_what_may_differ_between_workers(name, value):
    base = agreement.settings(tiny.config())
    assert agreement.settings(tiny.config(**{name: value})) == base


def _state(path, vocabulary=tiny.VOCABULARY, step=0, weight=1.0):
    size = path.stat().st_size
    records = Records((RecordFile(str(path), 2, size, 16),))
    variables = {
        "global_step": tf.Variable(step, dtype=tf.int64),
        "a": tf.Variable([0.0, weight]),
    }
    store = Checkpoints(path.parent, variables)
    return agreement.state(Prepared(vocabulary, {16: records}, None), store)


def test_data_and_weights_are_compared_by_what_they_hold(tmp_path):
    paths = [tmp_path / name for name in ("a", "copy", "other")]
    for path, content in zip(paths, (b"abc", b"abc", b"abd"), strict=True):
        path.write_bytes(content)
    base = _state(paths[0])
    assert _state(paths[1]) == base
    others = {
        "records of 16 tokens": _state(paths[2]),
        "vocabulary": _state(paths[0], tiny.COUNTED),
        "step": _state(paths[0], step=2),
        "weights": _state(paths[0], weight=2.0),
    }
    # The step is hashed with the weights.
    others["step"]["weights"] = base["weights"]
    for name, changed in others.items():
        assert {key for key in base if base[key] != changed[key]} == {name}
