"""Whole commands that are killed, stopped, or run on a disk that fails."""

import os
import pathlib
import random
import re
import shutil
import signal

import faulty_commands
import pretraining_command
import pytest
import run_files
import tiny_finetuning
from faulty_commands import Fault

from electra_tf.util.locks import DirectoryLock

pytestmark = pytest.mark.faults

NUM_STEPS = 120
NUM_KILLS = 20
_KILLED = -signal.SIGKILL
_FORMATS = ("tf1", "electra_tf", "hf")
_STOPPED, _NO_SPACE, _BAD_INPUT, _IN_USE = 42, 6, 2, 3
_TRAINING = [
    *pretraining_command.FLAGS,
    "--num_hidden_layers=1",
    f"--num_train_steps={NUM_STEPS}",
    "--iterations_per_loop=2",
    "--save_checkpoints_steps=2",
    "--keep_checkpoint_max=2",
]
_FINETUNING = [
    "--model_name=tiny",
    "--task_names=sst",
    "--train_batch_size=8",
    "--max_restarts=0",
    "--iterations_per_loop=2",
    "--save_checkpoints_steps=4",
    "--num_train_epochs=3",
    "--write_test_outputs",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    started_server = faulty_commands.Server(tmp_path_factory.mktemp("scratch"))
    yield started_server
    started_server.close()


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """Yields a server and the directory where it mounts a disk."""
    if not faulty_commands.can_mount():
        pytest.skip("needs user namespaces: unshare -rm")
    scratch = tmp_path_factory.mktemp("scratch")
    started_server = faulty_commands.Server(scratch, has_disk=True)
    yield started_server, tmp_path_factory.mktemp("disk")
    started_server.close()


@pytest.fixture
def fresh_disk(disk):
    """Mounts an empty disk of 32 MiB."""
    started_server, directory = disk
    words = ("-t", "tmpfs", "-o", "size=32m", "none")
    started_server.mount(*words, directory)
    return started_server, directory


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory, server):
    """A directory with text, a pre-training run and inputs of fine-tuning."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "corpus.txt").write_text(pretraining_command.text())
    done = _pretrain(server, directory, "undisturbed")
    assert done.code == 0, done.output
    tiny_finetuning.write_model(directory)
    tiny_finetuning.write_sst(directory)
    return directory


def _pretrain(server, data_dir, name, *flags, corpus=None, **options):
    return server.run(
        data_dir,
        "run_pretraining",
        f"--data_dir={data_dir}",
        f"--model_name={name}",
        f"--corpus={corpus or data_dir}/corpus.txt",
        *_TRAINING,
        *flags,
        **options,
    )


def _assert_ends_undisturbed(model_dir, data_dir):
    expected = data_dir / "models" / "undisturbed"
    run_files.assert_same_end(model_dir, expected, NUM_STEPS)


@pytest.mark.promise(
    "kill -9, twenty times, at random moments and in the middle of "
    "checkpoints: the same command goes on each time, and the weights and "
    "metrics in the end are those of a run that nothing disturbed"
)
def test_a_run_that_is_killed_twenty_times_ends_with_the_same_bits(
    server, data_dir
):
    """The first forty places span the start and three checkpoints."""
    rng = random.Random(0)
    path = "models/killed"
    faults = [
        *(Fault("SIGKILL", at, path) for at in rng.sample(range(1, 41), 13)),
        *(
            Fault(
                "SIGKILL", 2, f"{path}/metrics.jsonl", rng.uniform(0.005, 0.08)
            )
            for _ in range(NUM_KILLS - 13)
        ),
    ]
    rng.shuffle(faults)
    num_in_checkpoint = 0
    for fault in faults:
        done = _pretrain(server, data_dir, "killed", fault=fault)
        assert done.code == _KILLED, done.output
        num_in_checkpoint += "model.ckpt-" in done.places[-1]
    assert num_in_checkpoint >= 5
    done = _pretrain(server, data_dir, "killed")
    assert done.code == 0, done.output
    model_dir = data_dir / "models" / "killed"
    _assert_ends_undisturbed(model_dir, data_dir)
    expected = set(os.listdir(data_dir / "models" / "undisturbed"))
    left = set(os.listdir(model_dir)) - expected
    # Leftovers of small files under temporary names are harmless.
    assert all(re.fullmatch(r"tmp-.*jsonl?-\d+", x) for x in left)


def _flags_of(name, data_dir, to):
    """Returns a command that writes below a directory, and its outputs.

    Args:
      name: of the command.
      data_dir: with the text that it reads.
      to: where it writes; it holds a copy of the models that it needs.

    Returns:
      Its words, and a pattern of the files that every run reproduces.
    """
    text = f"--corpus={data_dir}/corpus.txt"
    of_run = (f"--data_dir={to}", "--model_name=undisturbed")
    convert = ("convert_checkpoint", f"--input={data_dir}/models/undisturbed")
    return {
        "build_vocab": (
            ("build_vocab", text, f"--vocab_file={to}/v.txt"),
            "v.txt",
        ),
        "build_pretraining_dataset": (
            (
                "build_pretraining_dataset",
                text,
                f"--vocab_file={data_dir}/vocab.txt",
                f"--output_dir={to}/records",
                "--max_seq_length=32",
            ),
            "records/*data*",
        ),
        "evaluation": (
            (
                "run_pretraining",
                *of_run,
                text,
                *_TRAINING,
                "--do_train=false",
                "--do_eval",
            ),
            "models/undisturbed/results/*.json",
        ),
        "export_saved_model": (
            ("export_saved_model", *of_run),
            "models/undisturbed/saved_model/*/*/1/assets/*",
        ),
        "run_finetuning": (
            ("run_finetuning", f"--data_dir={to}", *_FINETUNING),
            "models/tiny/*/*.jsonl",
        ),
        **{
            f"convert_to_{target}": (
                (*convert, f"--output={to}/out", f"--target_format={target}"),
                "out/**/*",
            )
            for target in _FORMATS
        },
    }[name]


def _copy(data_dir, to):
    """Copies the inputs of commands to the directory where they write."""
    skip = shutil.ignore_patterns("killed", "results", "saved_model", "clock")
    return shutil.copytree(data_dir, to, ignore=skip)


def _names(directory):
    """Returns the files below a directory, hidden ones too."""
    return {
        os.path.relpath(os.path.join(parent, name), directory)
        for parent, _, names in os.walk(directory)
        for name in names
    }


def _unfinished(directory):
    """Returns the names of locks and of incomplete files."""
    marks = ("tmp-", ".tmp", "lock")
    names = map(os.path.basename, _names(directory))
    return [x for x in names if x.startswith(marks[0]) or x.endswith(marks[1:])]


@pytest.mark.promise(
    "SIGTERM, Ctrl-C or SIGHUP while data are built, a model is evaluated, "
    "exported, fine-tuned or converted: exit code 42 and one line, no half "
    "file, and the same command ends as if nothing had been"
)
@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("build_vocab", (4, 5, 6)),
        ("build_pretraining_dataset", (5, 9, 10)),
        ("evaluation", (4, 10, 11)),
        ("export_saved_model", (6, 12, 20)),
        ("run_finetuning", (7, 40, 50)),
        ("convert_to_tf1", (5, 9, 22)),
        ("convert_to_electra_tf", (6, 14, 18)),
        ("convert_to_hf", (10, 23, 36)),
    ],
)
def test_a_signal_leaves_only_complete_files(
    server, data_dir, tmp_path, record_property, name, places
):
    whole = _copy(data_dir, tmp_path / "whole")
    words, pattern = _flags_of(name, data_dir, whole)
    done = server.run(whole, *words)
    assert done.code == 0, done.output
    stopped = _copy(data_dir, tmp_path / "stopped")
    words, _ = _flags_of(name, data_dir, stopped)
    for signal_name, at in zip(
        ("SIGTERM", "SIGINT", "SIGHUP"), places, strict=True
    ):
        done = server.run(stopped, *words, fault=Fault(signal_name, at))
        assert done.code == _STOPPED, (signal_name, done.output)
        last = done.output.splitlines()[-1]
        assert last.startswith("Stopped by a signal")
        keeps_work = name != "build_vocab"
        assert ("same command to resume" in last) == keeps_work
        assert "Traceback" not in done.output
        assert not _unfinished(stopped), (signal_name, done.places[-1])
        record_property("seconds_to_message", done.seconds)
    done = server.run(stopped, *words)
    assert done.code == 0, done.output
    assert _names(stopped) == _names(whole)
    for path in filter(pathlib.Path.is_file, whole.glob(pattern)):
        other = stopped / path.relative_to(whole)
        assert other.read_bytes() == path.read_bytes(), path


@pytest.mark.promise(
    "a signal in the middle of a training: a checkpoint, exit code 42, and the "
    "weights in the end are those of a run that nothing disturbed"
)
def test_any_signal_in_training_saves_a_checkpoint(
    server, data_dir, record_property
):
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        fault = Fault(name, 5, "signalled/metrics.jsonl")
        done = _pretrain(server, data_dir, "signalled", fault=fault)
        assert done.code == _STOPPED, done.output
        step = re.search(r"checkpoint of step (\d+) is saved", done.output)[1]
        model_dir = data_dir / "models" / "signalled"
        assert (model_dir / f"model.ckpt-{step}.index").exists()
        assert not _unfinished(model_dir)
        record_property("seconds_to_message", done.seconds)
    done = _pretrain(server, data_dir, "signalled")
    assert done.code == 0, done.output
    _assert_ends_undisturbed(model_dir, data_dir)


def _leave_free(directory, num_bytes):
    """Fills a disk until `num_bytes` are free."""
    filler = directory / "filler"
    filler.unlink(missing_ok=True)
    state = os.statvfs(directory)
    size = max(0, state.f_bavail * state.f_bsize - num_bytes)
    filler.write_bytes(bytes(size))


def _run_as_room_grows(server, directory, words):
    """Repeats a command with ever more free space; returns its messages."""
    outside_path, messages, free = server.outside_path(directory), [], 0
    while True:
        _leave_free(outside_path, free)
        done = server.run(directory, *words)
        if done.code == 0:
            return messages
        *_, message = done.output.splitlines()
        assert done.code == _NO_SPACE, (free, done.output)
        assert str(directory) in message, message
        assert "Traceback" not in done.output
        messages.append(message)
        free = 2 * free + 2**14
        assert free < 2**24, messages


@pytest.mark.promise(
    "a full disk while records are built, a model is trained, evaluated or "
    "exported: exit code 6 and the path, nothing that was there is damaged, "
    "and the same command goes on once there is room"
)
def test_pretraining_resumes_after_any_full_disk(fresh_disk, data_dir):
    server, directory = fresh_disk
    messages = _run_as_room_grows(
        server,
        directory,
        [
            "run_pretraining",
            f"--data_dir={directory}",
            "--model_name=full",
            f"--corpus={data_dir}/corpus.txt",
            *_TRAINING,
            "--do_eval",
            "--do_export",
        ],
    )
    assert len({re.sub(r"\d+", "", message) for message in messages}) >= 4
    outside_path = server.outside_path(directory)
    _assert_ends_undisturbed(outside_path / "models" / "full", data_dir)
    assert not _unfinished(outside_path)


@pytest.mark.promise(
    "a full disk in fine-tuning: exit code 6 and the path, and the same "
    "command goes on once there is room, to the same answers"
)
def test_fine_tuning_resumes_after_any_full_disk(
    fresh_disk, server, data_dir, tmp_path
):
    disk_server, directory = fresh_disk
    whole = _copy(data_dir, tmp_path / "whole")
    done = server.run(*(whole, *_flags_of("run_finetuning", "", whole)[0]))
    assert done.code == 0, done.output
    outside_path = disk_server.outside_path(directory)
    for name in ("models/tiny", "finetuning_data"):
        shutil.copytree(data_dir / name, outside_path / name)
    words, pattern = _flags_of("run_finetuning", "", directory)
    messages = _run_as_room_grows(disk_server, directory, words)
    assert len(messages) >= 3
    for path in whole.glob(pattern):
        other = outside_path / path.relative_to(whole)
        assert other.read_bytes() == path.read_bytes(), path
    assert not _unfinished(outside_path)


@pytest.mark.promise(
    "a full disk in a conversion: exit code 6 and the path, and the same "
    "command goes on once there is room, to the same files"
)
@pytest.mark.parametrize("target", _FORMATS)
def test_a_conversion_can_be_repeated_after_any_full_disk(
    fresh_disk, data_dir, target
):
    server, directory = fresh_disk
    words, _ = _flags_of(f"convert_to_{target}", data_dir, directory)
    assert len(_run_as_room_grows(server, directory, words)) >= 3
    (server.outside_path(directory) / "filler").unlink()
    done = server.run(directory, *words, f"--output={directory}/whole")
    assert done.code == 0, done.output
    outside_path = server.outside_path(directory)
    assert _names(outside_path / "out") == _names(outside_path / "whole")


@pytest.mark.promise(
    "the directory becomes read-only in the middle of a run: exit code 2 and "
    "the path, and the same command goes on when it can be written to"
)
@pytest.mark.parametrize("path", ["tmp-model.ckpt-10", "metrics.jsonl"])
def test_a_run_whose_directory_becomes_read_only_goes_on_later(
    fresh_disk, data_dir, record_property, path
):
    server, directory = fresh_disk
    options = {"corpus": data_dir}
    done = _pretrain(
        server,
        directory,
        "read_only",
        fault=Fault("read-only", 1 + 4 * path.startswith("met"), path),
        **options,
    )
    assert done.code == _BAD_INPUT, done.output
    record_property("seconds_to_message", done.seconds)
    *_, message = done.output.splitlines()
    assert str(directory) in message and "Read-only file system" in message
    assert "Traceback" not in done.output
    server.mount("-o", "remount,rw,bind", directory)
    done = _pretrain(server, directory, "read_only", **options)
    assert done.code == 0, done.output
    model_dir = server.outside_path(directory) / "models" / "read_only"
    _assert_ends_undisturbed(model_dir, data_dir)


@pytest.mark.promise(
    "the clock jumps back and ahead by a day all the time: weights and "
    "metrics are those of a run with a sound clock"
)
def test_a_clock_that_jumps_changes_nothing(server, data_dir):
    done = _pretrain(server, data_dir, "clock", has_clock=False)
    assert done.code == 0, done.output
    _assert_ends_undisturbed(data_dir / "models" / "clock", data_dir)


@pytest.mark.promise(
    "two runs in one directory: the second ends with exit code 3 and names "
    "process and host of the first"
)
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("build_vocab", ".v.txt.lock"),
        ("build_pretraining_dataset", "records/.lock"),
        ("evaluation", "models/undisturbed/lock"),
        (
            "export_saved_model",
            "models/undisturbed/saved_model/discriminator/text/.lock",
        ),
        (
            "run_finetuning",
            "models/tiny/finetuning_models/sst_model_1/lock",
        ),
    ],
)
def test_a_second_command_in_a_directory_is_refused(
    server, data_dir, tmp_path, name, place
):
    directory_in_use = _copy(data_dir, tmp_path / "there")
    words, _ = _flags_of(name, data_dir, directory_in_use)
    path = directory_in_use / place
    path.parent.mkdir(parents=True, exist_ok=True)
    with DirectoryLock(path.parent, path.name, "wait"):
        done = server.run(directory_in_use, *words)
    assert done.code == _IN_USE, done.output
    assert f"process {os.getpid()} on {os.uname().nodename}" in done.output
    assert "Traceback" not in done.output
