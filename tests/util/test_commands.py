"""Command lines, stored configurations, exit codes, and written files."""

import dataclasses
import errno
import json
import os
import subprocess
import sys
from typing import ClassVar

import pytest
import tensorflow as tf
from etils import epath

from electra_tf.util import files, flags
from electra_tf.util.errors import (
    DirectoryInUseError,
    ExitCode,
    LostWorkerError,
    NonFiniteLossError,
    StoppedBySignal,
    UserError,
    explain,
)

FULL = os.strerror(errno.ENOSPC)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("bad"), ExitCode.BAD_INPUT),
        (FileNotFoundError(errno.ENOENT, "missing", "f"), ExitCode.BAD_INPUT),
        (tf.errors.NotFoundError(None, None, "f"), ExitCode.BAD_INPUT),
        (DirectoryInUseError("d"), ExitCode.DIRECTORY_IN_USE),
        (NonFiniteLossError("nan"), ExitCode.NON_FINITE_LOSS),
        (MemoryError(), ExitCode.OUT_OF_MEMORY),
        (
            tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"),
            ExitCode.OUT_OF_MEMORY,
        ),
        (
            tf.errors.ResourceExhaustedError(None, None, f"f; {FULL}"),
            ExitCode.NO_SPACE,
        ),
        (OSError(errno.ENOSPC, FULL, "f"), ExitCode.NO_SPACE),
        (LostWorkerError("w"), ExitCode.LOST_WORKER),
        (StoppedBySignal(7), ExitCode.STOPPED_BY_SIGNAL),
        (KeyboardInterrupt(), ExitCode.STOPPED_BY_SIGNAL),
        (BrokenPipeError(), ExitCode.OUTPUT_CLOSED),
        (KeyError("a bug"), ExitCode.ERROR),
    ],
)
def test_an_error_has_an_exit_code_and_a_line(error, code):
    found, text = explain(error)
    assert found == code
    assert bool(text) != (code == ExitCode.ERROR)


COMMAND = """
import dataclasses, os, signal, sys, warnings
from electra_tf.util import console, flags

@dataclasses.dataclass(frozen=True)
class Config:
    how: str = ""

def main(config: Config):
    if config.how == "signal":
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    if config.how == "closed":
        os.close(1); os.open(os.devnull, os.O_RDONLY)
    if config.how == "warns":
        warnings.warn("of use")
    console.say("done")

flags._help_texts = lambda _: {}
flags.run_command(main, Config)
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [("", 0), ("warns", 0), ("signal", 42), ("closed", 2), ("?bad", 2)],
)
def test_a_command_ends_with_its_code_and_without_a_traceback(how, code):
    flag = f"--how={how}" if how != "?bad" else how
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, flag], capture_output=True, text=True
    )
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert how != "warns" or ended.stderr == "WARNING: of use\n"


@pytest.mark.parametrize("root", ["", "ram://"])
def test_a_file_is_written_completely_or_not_at_all(
    tmp_path, monkeypatch, root
):
    path = f"{root}{tmp_path}/a.json"
    epath.Path(os.path.dirname(path)).mkdir(parents=True, exist_ok=True)
    files.write_json(path, {"a": "é"})
    files.write_json(path, {"a": [1]})
    assert files.read_json(path) == {"a": [1]}
    if not root:
        monkeypatch.setattr(os, "fsync", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            files.write_json(path, 2)
        assert files.read_json(path) == {"a": [1]}
        assert os.listdir(tmp_path) == ["a.json"]


def test_a_directory_has_one_owner_while_it_lives(tmp_path):
    code = (
        "import sys, time; from electra_tf.util import files\n"
        "with files.lock_directory(sys.argv[1]):\n"
        "    print(flush=True); time.sleep(99)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE
    ) as owner:
        owner.stdout.readline()
        with pytest.raises(DirectoryInUseError):
            with files.lock_directory(tmp_path):
                pass
        owner.kill()
        owner.wait()
    with files.lock_directory(tmp_path):
        pass
    assert not os.listdir(tmp_path)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Free(flags.Checked):
    """What may change."""

    data_dir: str = flags.required()
    """Where the data are."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part(flags.Checked):
    """What defines a run."""

    steps: int = flags.bounded(10, 1)
    """Number of
    updates."""
    rate: float | None = flags.bounded(None, 0, 1)
    """Learning rate."""
    on_tpu: bool = False
    """Use a TPU."""
    kind: str = flags.one_of("a", "b")
    """Kind."""
    sources: tuple[str, ...] = flags.several()
    """Sources."""
    rise_steps: tuple[int, ...] = (1, 2)
    """Sizes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Whole(flags.Checked):
    """A configuration."""

    free: Free
    part: Part = Part()
    original_behaviour: tuple[str, ...] = flags.some_of("masking", "sampling")
    """Bugs."""

    FREE_PARTS: ClassVar = frozenset({"free"})
    ORIGINAL_NAMES: ClassVar = {"use_b": {True: {"kind": "b"}, False: {}}}
    ORIGINAL_FLAGS: ClassVar = {"corpus_dir": "sources"}


def parse(*arguments):
    return flags.parse_flags(Whole, ["--data_dir=d", *arguments])


def test_a_leaf_has_its_part_and_its_docstring():
    leaf = {x.field.name: x for x in flags.leaves(Whole)}["steps"]
    assert (leaf.section, leaf.help) == ("part", "Number of updates.")


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("--steps=3", {"steps": 3}),
        ("--rate=1e-3", {"rate": 1e-3}),
        ("--on_tpu", {"on_tpu": True}),
        ("--noon_tpu", {}),
        ("--on-tpu", {"on_tpu": True}),
        ("--kind=b", {"kind": "b"}),
        ("--sources=x, y,", {"sources": ("x", "y")}),
        ("--corpus-dir=x", {"sources": ("x",)}),
        ("--rise_steps=", {"rise_steps": ()}),
        ("--rise_steps=3,4", {"rise_steps": (3, 4)}),
        (
            '--hparams={"use_b": true, "rate": 1, "x": {"steps": 1e3}}',
            {"kind": "b", "rate": 1.0, "steps": 1000},
        ),
    ],
)
def test_a_flag_sets_its_field(argument, values):
    assert parse(argument).part == Part(**values)


def test_the_later_value_wins(tmp_path):
    file = tmp_path / "a.cfg"
    file.write_text("# a comment\n--steps=2\n--kind=b\n--sources=x\n")
    hparams = json.dumps({"steps": 3, "rate": 0.5})
    found = parse(
        "--steps=1", f"--flagfile={file}", "--kind=a", f"--hparams={hparams}"
    )
    assert found.part == Part(steps=2, kind="a", rate=0.5, sources=("x",))
    (tmp_path / "h.json").write_text(hparams)
    assert parse(f"--hparams={tmp_path}/h.json").part.rate == 0.5
    # Lists on the command line add up, and replace those of files.
    found = parse("--sources=a,b", f"--flagfile={file}", "--sources=c")
    assert found.part.sources == ("a", "b", "c")


def test_a_leading_tilde_is_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home")
    found = parse("--data_dir=~/d", "--sources=~/a,~b")
    assert found.free.data_dir == "/home/d"
    assert found.part.sources == ("/home/a", "~b")


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("--stepz=1", "steps"),
        ("--steps=x", "steps"),
        ("--steps=0", "steps"),
        ("--rate=nan", "rate"),
        ("--kind=c", "kind"),
        ("--original_behaviour=masking,x", "x"),
        ("--data_dir=", "data_dir"),
        ("--flagfile=nowhere", "nowhere"),
        ("stray", "stray"),
    ],
)
def test_a_bad_argument_is_named(argument, named):
    with pytest.raises(UserError, match=named):
        parse(argument)


def test_a_stored_configuration_comes_back(tmp_path):
    path = tmp_path / flags.CONFIG_FILE
    config = parse("--steps=4", "--sources=a,b")
    flags.save_config(path, config)
    assert flags.load_config(path, Whole) == config
    assert parse(f"--hparams={path}") == config
    free = parse("--data_dir=x", "--steps=4", "--sources=a,b")
    flags.check_same_experiment(path, free)
    now = parse("--steps=5", "--sources=a")
    with pytest.raises(UserError, match="(?s)steps: 4 .* 5.*sources"):
        flags.check_same_experiment(path, now)
    free = ["steps", "sources"]
    flags.check_same_experiment(path, now, free_fields=free)


def test_a_configuration_of_an_earlier_version_opens(tmp_path):
    path = tmp_path / flags.CONFIG_FILE
    old = {"steps": 4, "dropped": 1, "rise_start_step": 3, "rise_end_step": 5}
    switches = {"original_masking": False, "original_sampling": True}
    parts = {"free": {"data_dir": "d"}, "old": old, "part": switches}
    path.write_text(json.dumps(parts))
    same = ["--steps=4", "--rise_steps=3,5", "--original_behaviour=sampling"]
    assert flags.load_config(path, Whole) == parse(*same)
    flags.check_same_experiment(path, parse(*same))
    for other in ("--kind=b", "--original_behaviour=masking"):
        with pytest.raises(UserError):
            flags.check_same_experiment(path, parse(*same, other))
