"""A run with phases and buckets has the same result however often it stops."""

import contextlib
import json
import math
import random
import shutil
import warnings

import pytest
import run_files
import tensorflow as tf
import tiny

from electra_tf.configure_pretraining import RunConfig
from electra_tf.pretrain import (
    export,
    pretraining_run,
    run_checks,
)
from electra_tf.pretrain.initialization import InitialWeights
from electra_tf.training import callbacks
from electra_tf.util import distribution
from electra_tf.util.errors import (
    ExitCode,
    NonFiniteLossError,
    StoppedBySignal,
    UserError,
    explain,
)

NUM_STEPS = 20
PHASE_END = 12
FLAGS = {
    "objective": "mlm",  # small, as each run traces an update of each length
    "num_hidden_layers": 1,
    "max_seq_length": 32,
    "seq_length_phases": "16:0.6:8,32:0.4:4",
    "length_buckets": (16,),
    "vocab_size": 60,
    "mask_prob": 0.2,
    "num_train_steps": NUM_STEPS,
    "iterations_per_loop": 5,
    "hidden_dropout_prob": 0.1,
    "do_eval": False,
    "do_export": False,
}
MLM = {"objective": "mlm", "num_hidden_layers": 1}
ONE_LENGTH = {
    "seq_length_phases": "",
    "length_buckets": (),
    "num_train_steps": 2,
    "num_warmup_steps": 1,
    "iterations_per_loop": 1,
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """Documents of 2 to 60 words."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcd", k=3)) for _ in range(40)]
    documents = (
        "\n".join(
            " ".join(rng.choices(words, k=4)) for _ in range(rng.randint(1, 9))
        )
        for _ in range(150)
    )
    directory = tmp_path_factory.mktemp("data")
    (directory / "corpus.txt").write_text("\n\n".join(documents))
    return directory


def run(data_dir, name, callbacks=(), **leaves):
    run_files.run(data_dir, name, callbacks, **FLAGS | leaves)


def tensors(data_dir, name):
    return run_files.tensors(data_dir / "models" / name, NUM_STEPS)


def log(data_dir, name):
    return run_files.log(data_dir / "models" / name)


@pytest.fixture
def eager():
    """Runs the few updates of a test without tracing them."""
    tf.config.run_functions_eagerly(True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Even though")  # data stay graphs
        yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def uninterrupted(data_dir):
    run(data_dir, "uninterrupted")
    return tensors(data_dir, "uninterrupted")


@pytest.mark.slow
def test_lengths_are_logged_and_blocks_end_with_the_phase(
    data_dir, uninterrupted
):
    records = log(data_dir, "uninterrupted")
    lengths = {record["step"]: record["max_seq_length"] for record in records}
    assert PHASE_END in lengths
    for step, length in lengths.items():
        assert length == (16 if step <= PHASE_END else 32)
    for length in (16, 32):
        name = {16: "pretrain_tfrecords_16", 32: "pretrain_tfrecords"}[length]
        manifest = json.loads((data_dir / name / "manifest.json").read_text())
        assert manifest["max_seq_length"] == length
        assert manifest["length_buckets"] == [16] * (length == 32)


@pytest.mark.slow
@pytest.mark.parametrize("stops", [(PHASE_END,), (5, 15)])
def test_a_run_stopped_around_the_end_of_a_phase_is_bit_exact(
    data_dir, uninterrupted, stops
):
    name = f"stopped at {stops}"
    for stop in stops:
        with pytest.raises(StoppedBySignal):
            run(data_dir, name, callbacks=[run_files.Stop(stop)])
    run(data_dir, name)
    tiny.assert_same(tensors(data_dir, name), uninterrupted)
    assert log(data_dir, name) == log(data_dir, "uninterrupted")


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
            run(
                data_dir, "elastic", callbacks=[run_files.Stop(stop)], **ELASTIC
            )
        assert log(data_dir, "elastic")[-1]["step"] == stop
    expected = log(data_dir, "one device")
    for found, record in zip(log(data_dir, "elastic"), expected, strict=True):
        for name in ("step", "max_seq_length"):
            assert found[name] == record[name]
        for name in ("loss", "masked_lm_loss", "disc_loss"):
            assert found[name] == pytest.approx(record[name], rel=1e-6)


def test_replicas_that_cannot_share_a_phase_are_refused(data_dir, monkeypatch):
    monkeypatch.setattr(
        distribution, "make_strategy", lambda _, **__: tiny.replicas(3)
    )
    message = "Received: 4 and 8 rows, 3 replicas, .* can be 1, 2, 4"
    with pytest.raises(UserError, match=message):
        run(data_dir, "never")


@pytest.mark.parametrize(
    ("given", "built", "is_demo"),
    [
        ("demo", "", True),
        ("demo", "other.txt", False),
        ("other.txt", "demo", True),
        ("other.txt", "", False),
    ],
)
def test_the_demos_text_is_announced_where_it_is_trained_on(
    tmp_path, monkeypatch, capsys, given, built, is_demo
):
    def stop(_):
        raise UserError("before the data is prepared")

    monkeypatch.setattr(run_checks, "own_directory", stop)
    if built:
        records = tmp_path / "pretrain_tfrecords"
        records.mkdir()
        (records / "pretrain_data.tfrecord-0-of-1").touch()
        manifest = json.dumps({"corpus": [built]})
        (records / "manifest.json").write_text(manifest)
    with pytest.raises(UserError, match="before the data"):
        pretraining_run.run(tiny.config(tmp_path, corpus=(given,)))
    output = capsys.readouterr().out
    assert ("The text is the English documentation" in output) == is_demo


@pytest.mark.promise(
    "The records of a run are built again from other text between two starts: "
    "the second ends with exit code 2 and names them"
)
def test_a_run_resumes_only_with_the_records_it_began_with(
    data_dir, tmp_path, eager
):
    here, moved, corpus = (tmp_path / x for x in ("here", "moved", "text.txt"))
    text = (data_dir / "corpus.txt").read_text()
    flags = ONE_LENGTH | {"corpus": (str(corpus),)}
    corpus.write_text(text)
    with pytest.raises(StoppedBySignal):
        run(here, "a", [run_files.Stop(1)], **flags)
    shutil.copytree(here, moved)
    shutil.rmtree(here / "pretrain_tfrecords")
    corpus.write_text(f"{text}\n\n{text[:2000]}")
    message = "records of 32 tokens. .*--init_checkpoint=.*/a to continue"
    with pytest.raises(UserError, match=message) as error:
        run(here, "a", **flags)
    assert explain(error.value)[0] == ExitCode.BAD_INPUT
    run(here, "a", do_train=False, **flags)
    run(moved, "a", **flags)


@pytest.mark.slow
@pytest.mark.promise(
    "a run and its data are moved, with a vocabulary that --vocab_file named: "
    "it is exported, evaluated and resumed to the same bits"
)
def test_a_run_goes_on_after_its_vocabulary_moved(data_dir, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    flags = ONE_LENGTH | {"corpus": (str(data_dir / "corpus.txt"),)}
    of_place = {x: {"vocab_file": str(x / "v.txt")} for x in (here, there)}
    with pytest.raises(StoppedBySignal):
        run(here, "a", [run_files.Stop(1)], **flags, **of_place[here])
    shutil.copytree(here, there)
    run(here, "a", **flags, **of_place[here])
    expected = run_files.tensors(here / "models/a", 2)
    shutil.rmtree(here)
    place = RunConfig(data_dir=str(there), model_name="a")
    assert int(pretraining_run.load(place).optimizer.iterations) == 1
    run(there, "a", do_train=False, do_eval=True, **flags, **of_place[there])
    (there / "v.txt").rename(tmp_path / "v.txt")
    with pytest.raises(UserError, match=r"here/v\.txt"):
        pretraining_run.load(place)
    vocab_file = str(tmp_path / "v.txt")
    assert pretraining_run.load(place, vocab_file=vocab_file)
    run(there, "a", **flags, vocab_file=vocab_file)
    found = run_files.tensors(there / "models/a", 2)
    assert found.keys() == expected.keys()
    assert all((found[name] == expected[name]).all() for name in expected)


def test_tensorboard_is_looked_for_before_the_data_are_built(
    data_dir, tmp_path, monkeypatch
):
    def fail():
        raise UserError("no tensorboard")

    monkeypatch.setattr(callbacks, "check_tensorboard", fail)
    flags = ONE_LENGTH | {"corpus": (str(data_dir / "corpus.txt"),)}
    with pytest.raises(UserError, match="no tensorboard"):
        run(tmp_path, "a", tensorboard=True, **flags)
    assert not [*tmp_path.iterdir()]
    with pytest.raises(UserError, match="holds no checkpoint"):
        run(tmp_path, "a", tensorboard=True, do_train=False, **flags)


def test_a_run_of_an_older_version_resumes_and_notes_its_records(
    data_dir, tmp_path, eager
):
    flags = ONE_LENGTH | {"corpus": (str(data_dir / "corpus.txt"),)}
    run(tmp_path, "a", **flags)
    path = tmp_path / "models" / "a" / "inputs.json"
    inputs = json.loads(path.read_text())
    assert inputs.keys() == {"vocabulary", "records of 32 tokens"}
    path.unlink()
    with pytest.raises(UserError, match="vocab_file: '' stored"):
        vocab_file = str(tmp_path / "vocab.txt")
        run(tmp_path, "a", **flags, vocab_file=vocab_file)
    path.write_text(json.dumps({"vocabulary": inputs["vocabulary"]}))
    run(tmp_path, "a", **flags)
    assert json.loads(path.read_text()) == inputs


def test_a_store_keeps_the_checkpoints_of_flags_and_they_come_first(tmp_path):
    flags = {"keep_checkpoint_max": 2, "checkpoint_milestones": (0.5,)}
    model = tiny.model(tiny.config(tmp_path, **flags, init_checkpoint="none"))
    store = pretraining_run._restore(model, InitialWeights())
    with pytest.raises(UserError, match="none"):
        pretraining_run._read_initial_weights(model.config)
    for step in (5, 10, 15, NUM_STEPS):
        store.save(step)
    assert store.steps() == [10, 15, NUM_STEPS]
    assert not any(pretraining_run._read_initial_weights(model.config))


def test_the_vocabulary_of_initial_weights_is_that_of_the_data(
    tmp_path, monkeypatch
):
    model = tiny.model(tiny.config(tmp_path, **MLM))
    given, strategy = [], distribution.make_strategy("one")
    monkeypatch.setattr(
        pretraining_run.preparation,
        "prepare",
        lambda config, initial_vocabulary: given.append(initial_vocabulary),
    )
    for initial in (InitialWeights(export.weights_of(model)), InitialWeights()):
        pretraining_run._prepare(model.config, strategy, initial)
    assert given == [tiny.VOCABULARY, None]


def test_initial_weights_must_be_finite(tmp_path):
    model = tiny.model(tiny.config(tmp_path, **MLM))
    found = export.weights_of(model)
    pretraining_run._restore(model, InitialWeights(found))
    found.arrays["generator_predictions/output_bias"][3] = math.nan
    with pytest.raises(NonFiniteLossError, match="initial weights .*output_b"):
        pretraining_run._restore(model, InitialWeights(found))


def test_a_run_is_loaded_only_with_a_checkpoint_and_its_vocabulary(tmp_path):
    config = tiny.config(tmp_path, **MLM)
    (tmp_path / "vocab.txt").write_bytes(tiny.VOCABULARY.content)
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    pretraining_run._save_settings(config, {})
    with pytest.raises(UserError, match="must hold a checkpoint"):
        pretraining_run.load(config.run)
    run_checks.check_inputs(config, {"vocabulary": "another"}, write=True)
    with pytest.raises(UserError, match="vocabulary"):
        pretraining_run.load(config.run)
