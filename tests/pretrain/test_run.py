"""A run with phases has the same result however often it stops."""

import contextlib
import random
import shutil
import warnings

import pretraining_command as command
import pytest
import tensorflow as tf
import tiny

from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.data.preparation import Prepared
from electra_tf.data.reading import RecordFile, Records
from electra_tf.pretrain import run as pretraining_run
from electra_tf.util import distribution
from electra_tf.util.errors import (
    ExitCode,
    StoppedBySignal,
    UserError,
    explain,
)

NUM_STEPS = 20
PHASE_END = 12
FLAGS = {
    "seq_length_phases": "16:0.6:8,32:0.4:4",
    "vocab_size": 60,
    "mask_prob": 0.2,
    "num_train_steps": NUM_STEPS,
    "iterations_per_loop": 5,
}
ONE_LENGTH = {
    "seq_length_phases": "",
    "num_train_steps": 2,
    "num_warmup_steps": 1,
    "iterations_per_loop": 1,
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """Documents of 4 to 36 words."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcd", k=3)) for _ in range(40)]
    lines = [" ".join(rng.choices(words, k=4)) for _ in range(750)]
    for number in rng.sample(range(750), 150):
        lines[number] += "\n"  # the end of a document
    directory = tmp_path_factory.mktemp("data")
    (directory / "corpus.txt").write_text("\n".join(lines))
    return directory


def run(data_dir, name, callbacks=(), **leaves):
    command.train(data_dir, name, callbacks, **FLAGS | leaves)


@pytest.fixture
def eager():
    """Runs the few updates of a test without tracing them."""
    tf.config.run_functions_eagerly(True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Even though")  # data stay graphs
        yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.slow
def test_a_run_stopped_around_the_end_of_a_phase_is_bit_exact(data_dir):
    run(data_dir, "whole")
    for name, stops in (("a", (PHASE_END,)), ("b", (5, 15))):
        for stop in stops:
            with pytest.raises(StoppedBySignal):
                run(data_dir, name, callbacks=[command.Stop(stop)])
        run(data_dir, name)
        found, whole = (
            command.tensors(data_dir, x, NUM_STEPS) for x in (name, "whole")
        )
        tiny.assert_same(found, whole)
        assert command.log(data_dir, name) == command.log(data_dir, "whole")


ELASTIC = {
    "objective": "electra",
    "seq_length_phases": "16:0.6:24,32:0.4:12",
    "hidden_dropout_prob": 0.0,
}


@pytest.mark.faults
def test_a_run_goes_on_with_any_number_of_replicas(data_dir, monkeypatch):
    run(data_dir, "one device", **ELASTIC)
    for num_replicas, stop in ((2, 5), (1, 10), (3, 15), (4, NUM_STEPS)):
        strategy = tiny.replicas(num_replicas)
        monkeypatch.setattr(
            distribution, "make_strategy", lambda _, fixed=strategy, **__: fixed
        )
        with contextlib.suppress(StoppedBySignal):
            run(data_dir, "elastic", callbacks=[command.Stop(stop)], **ELASTIC)
        assert command.log(data_dir, "elastic")[-1]["step"] == stop
    expected = command.log(data_dir, "one device")
    for found, record in zip(
        command.log(data_dir, "elastic"), expected, strict=True
    ):
        for name in ("step", "max_seq_length"):
            assert found[name] == record[name]
        for name in ("loss", "masked_lm_loss", "disc_loss"):
            assert found[name] == pytest.approx(record[name], rel=1e-6)


def test_a_run_resumes_only_with_the_records_it_began_with(
    data_dir, tmp_path, eager
):
    here, moved, corpus = (tmp_path / x for x in ("here", "moved", "text.txt"))
    text = (data_dir / "corpus.txt").read_text()
    flags = ONE_LENGTH | {"corpus": (str(corpus),)}
    corpus.write_text(text)
    with pytest.raises(StoppedBySignal):
        run(here, "a", [command.Stop(1)], **flags)
    shutil.copytree(here, moved)
    shutil.rmtree(here / "pretrain_tfrecords")
    corpus.write_text(f"{text}\n\n{text[:2000]}")
    with pytest.raises(UserError) as error:
        run(here, "a", **flags)
    assert explain(error.value)[0] == ExitCode.BAD_INPUT
    run(here, "a", do_train=False, **flags)
    run(moved, "a", **flags)


@pytest.mark.parametrize(
    ("leaves", "is_compared"),
    [
        ({"learning_rate": 1.0}, True),
        ({"iterations_per_loop": 3}, True),
        ({"do_train": False}, True),
        ({"eval_batch_size": 16}, True),
        ({"data_dir": "copy", "vocab_file": "copy"}, False),
        ({"num_processes": 3, "tensorboard": True}, False),
    ],
)
def test_workers_compare_what_changes_the_result(leaves, is_compared):
    base = pretraining_run.shared_settings(tiny.config())
    changed = pretraining_run.shared_settings(tiny.config(**leaves))
    names = {key for key in base if base[key] != changed[key]}
    assert names == (set(leaves) if is_compared else set())


def test_workers_compare_data_and_weights_by_what_they_hold(tmp_path):
    def state(name="a", content="abc", vocabulary=tiny.VOCABULARY, weight=1.0):
        path = tmp_path / name
        path.write_text(content)
        records = Records((RecordFile(str(path), 2, 3),), 16)
        variables = {"global_step": tf.Variable(0), "a": tf.Variable(weight)}
        data = Prepared(vocabulary, {16: records}, None)
        store = Checkpoints(tmp_path, variables)
        return pretraining_run.shared_state(data, store)

    base = state()
    assert state(name="copy") == base
    for name, leaves in {
        "records of 16 tokens": {"content": "abd"},
        "vocabulary": {"vocabulary": tiny.COUNTED},
        "weights": {"weight": 2.0},
    }.items():
        changed = state(**leaves)
        assert {key for key in base if base[key] != changed[key]} == {name}
