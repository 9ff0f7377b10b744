"""Each error of a command has its exit code and names its cause."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from electra_tf.util import errors
from electra_tf.util.errors import (
    ExitCode,
    UserError,
    explain,
    listed,
    shape_differences,
)
from electra_tf.util.line_logs import LineLog

FULL = "/dev/full"  # of Linux: every write finds it full
needs_full = pytest.mark.skipif(
    not os.path.exists(FULL), reason=f"needs {FULL}"
)


def op_error(error_class, text):
    return error_class(None, None, f"{{{{function_node __x}}}} {text} [Op:X]")


def with_cause(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (OSError(errno.ENOSPC, "No space left", "/d/x"), 6, "'/d/x'"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "/d/x"), 6, "'/d/x'"),
        (RuntimeError("/d/x: No space left on device (os error 28)"), 6, "/d/"),
        (with_cause(UserError("/d"), OSError(errno.ENOSPC, "full")), 6, "/d"),
        (
            op_error(tf.errors.ResourceExhaustedError, "OOM when allocating"),
            5,
            "Received: OOM when allocating",
        ),
        (MemoryError("x"), 5, "--gradient_accumulation_steps"),
        (MemoryError("x"), 5, "set --recompute"),
        (MemoryError("x"), 5, "set --precision=bfloat16"),
        (MemoryError("x"), 5, "In a build: lower --num_processes"),
        (PermissionError(errno.EACCES, "Permission denied", "/d/x"), 2, "/d/x"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/d/x"), 2, "/d/x"),
        (
            op_error(tf.errors.NotFoundError, "/d; No such file or directory"),
            2,
            "Received: /d; No such file or directory. Check",
        ),
        (
            op_error(
                tf.errors.PermissionDeniedError,
                "Graph execution error:\n\n/d/x; Permission denied\n\t [[a]]",
            ),
            2,
            "Received: /d/x; Permission denied. Check",
        ),
        (
            op_error(
                tf.errors.FailedPreconditionError, "/d; Read-only file system"
            ),
            2,
            "/d; Read-only",
        ),
        (KeyboardInterrupt(), 130, "Ctrl-C"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, "output"),
        (op_error(tf.errors.NotFoundError, "Op type not registered"), 1, ""),
        (OSError("no number"), 1, ""),
        (KeyError("x"), 1, ""),
    ],
)
def test_errors_of_libraries_get_an_exit_code_and_a_message(
    error, code, message
):
    found, text = explain(error)
    assert found == code
    assert message in text
    assert bool(text) == (code != ExitCode.ERROR)
    assert "function_node" not in text and "\n" not in text


@needs_full
def test_a_full_disk_error_names_the_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.symlink_to(FULL)
    with pytest.raises(OSError, match=f"No space left.*{path}"):
        LineLog(path).append("x")

    def write_records():
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(b"x" * 2**20)

    with pytest.raises(tf.errors.ResourceExhaustedError) as error:
        write_records()
    code, text = explain(error.value)
    assert code == ExitCode.NO_SPACE
    assert f"Received: {path}; No space left on device. Free" in text


def test_a_path_is_added_only_to_errors_without_one():
    with (
        pytest.raises(OSError, match="ours") as error,
        errors.add_path_to_errors("ours"),
    ):
        os.fsync(12345)
    assert error.value.filename == "ours"
    with (
        pytest.raises(OSError, match="theirs"),
        errors.add_path_to_errors("ours"),
    ):
        open("theirs")


def _command(code):
    """Returns a command whose `main` runs some lines."""
    return [
        sys.executable,
        "-c",
        "import sys, time\n"
        "from electra_tf.config.masking import MaskingConfig\n"
        "from electra_tf.util import config_flags, console\n"
        f"def main(_): {code}\n"
        "config_flags.run(main, MaskingConfig)\n",
    ]


@pytest.mark.promise(
    "a full disk under the file that standard output goes to: exit code 6, "
    "never a silent loss"
)
@needs_full
@pytest.mark.parametrize("say", ["console.say('x')", "sys.stdout.write('x')"])
def test_output_that_a_full_disk_loses_is_an_error(say):
    with open(FULL, "wb") as full:
        completed = subprocess.run(
            _command(say), stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert completed.returncode == ExitCode.NO_SPACE
    assert "No space left on device" in completed.stderr
    assert ("'standard output'" in completed.stderr) or "console" not in say
    assert completed.stderr.count("\n") == 1


@pytest.mark.parametrize("write", ["console.say", "sys.stdout.write"])
def test_a_reader_that_goes_away_ends_a_command_without_a_traceback(write):
    code = f"[{write}('x' * 1000) for _ in range(10**5)]"
    process = subprocess.Popen(
        _command(code), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.read(10)
    process.stdout.close()
    message = process.stderr.read().decode()
    assert process.wait() == ExitCode.OUTPUT_CLOSED
    assert message.count("\n") == 1


def test_ctrl_c_ends_a_command_with_one_line():
    process = subprocess.Popen(
        _command("console.say('up'), time.sleep(60)"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Shells make background jobs, perhaps this test, ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == b"up\n"
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stderr.read().decode() == "Interrupted by Ctrl-C.\n"
    assert process.wait() == ExitCode.INTERRUPTED
    assert time.monotonic() - start < 10


def test_a_value_is_shown_however_deep_it_nests():
    value = []
    for _ in range(10_000):
        value = [value]
    assert errors.shorten_repr(value) == "a list that nests too deeply"


def test_differences_of_shapes_are_listed_up_to_a_number():
    assert shape_differences({"a": (2,)}, {"a": [2]}) == ""
    text = shape_differences(
        {"a": (2,), "b": (1, 3), "c": ()},
        {"b": [1, 4], "c": (), "d": (5,)},
        unexpected="too many",
    )
    assert text == (
        "\n  missing: a"
        "\n  too many: d"
        "\n  of another shape: b [1, 4], expected [1, 3]"
    )
    names = [f"n{i}" for i in range(22)]
    assert listed(names[:20]).endswith("n18, n19")
    assert listed(names).endswith("n18, n19 and 2 more")
