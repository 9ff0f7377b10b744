"""What workers compare: all that decides the result, and no more."""

import dataclasses

import pytest
import tensorflow as tf

from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data.preparation import Prepared
from electra_tf.data.records import RecordFile, Records
from electra_tf.pretrain import agreement
from tests import tiny


def test_all_of_the_experiment_is_compared_but_where_data_lie():
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
def test_what_changes_updates_or_evaluation_is_told(name, value):
    there = agreement.settings(tiny.config())
    here = agreement.settings(tiny.config(**{name: value}))
    assert {key for key in there if there[key] != here[key]} == {name}


@pytest.mark.parametrize(
    ("name", "value"),
    [("data_dir", "copy"), ("num_processes", 3), ("tensorboard", True)],
)
def test_what_is_a_workers_own_is_not(name, value):
    there = agreement.settings(tiny.config())
    assert agreement.settings(tiny.config(**{name: value})) == there


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
    there = _state(paths[0])
    assert _state(paths[1]) == there
    others = {
        "records of 16 tokens": _state(paths[2]),
        "vocabulary": _state(paths[0], tiny.COUNTED),
        "step": _state(paths[0], step=2),
        "weights": _state(paths[0], weight=2.0),
    }
    others["step"]["weights"] = there["weights"]  # it is one of them
    for name, here in others.items():
        assert {key for key in there if there[key] != here[key]} == {name}
