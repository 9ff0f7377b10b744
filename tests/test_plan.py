"""The command `plan`: what it writes can be trained at once."""

import re
import subprocess
import sys
import types

import pytest

from electra_tf import plan
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import plan_measurements
from electra_tf.pretrain.planning import TimedUpdate
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

UPDATES = {  # layers, rows -> made-up seconds, start-up seconds, bytes
    (2, 32): (0.05, 10.0, 1e9),
    (2, 64): (0.2, 10.0, 1e9),
    (4, 64): (0.25, 15.0, 1.2e9),
    (12, 8): (8.0, 60.0, 3e9),
}


@pytest.fixture
def measured(monkeypatch):
    """Fakes measurements; returns the configurations that were measured."""
    calls = []

    def in_own_process(function, config):
        calls.append(config)
        if function is plan_measurements.count_tokens:
            return plan_measurements.CorpusSize(2.5e8, 6e7, 4096)
        layers = config.model.discriminator(1).num_hidden_layers
        rows = config.training.train_batch_size
        return TimedUpdate(config, *UPDATES[layers, rows])

    monkeypatch.setattr(plan_measurements, "in_own_process", in_own_process)
    return calls


def _plan(*arguments):
    plan.main(config_flags.parse(plan.PlanConfig, arguments))


def _read(path):
    return config_flags.parse(PretrainingConfig, [f"--flagfile={path}"])


def test_the_plan_is_a_configuration_of_the_chosen_size(
    measured, tmp_path, capsys
):
    path = tmp_path / "plan.cfg"
    _plan("--hours=8", "--corpus=a.txt,b.txt", f"--output={path}")
    config, text = _read(path), path.read_text()
    shape = config.model.discriminator(4096)
    assert (shape.num_hidden_layers, shape.hidden_size) == (4, 256)
    assert config.corpus.corpus == ("a.txt", "b.txt")
    assert config.corpus.is_packed
    assert config.run.model_dir == "data/plan_4x256/models/electra_4x256"
    stdout = capsys.readouterr().out
    assert stdout.count("<- chosen") == 1
    assert f"--flagfile={path}" in stdout and f"--flagfile={path}" in text
    for word in ("Source:", "Command:", "Hardware:", "Result:    not run yet"):
        assert word in text
    # 64 rows of 64 tokens in 80 % of the updates, else 32 of 128: 4,096 each.
    tokens = config.training.num_train_steps * 4096
    assert f"{tokens / 1e6:.1f} million tokens" in " ".join(
        text.replace("#", " ").split()
    )


def test_the_chosen_size_is_measured(measured, capsys):
    _plan("--hours=8", "--corpus=demo")
    text, *updates = measured
    assert text.corpus.corpus == ("demo",)
    shapes = [x.model.discriminator(1) for x in updates]
    sizes = [(x.num_hidden_layers, x.hidden_size) for x in shapes]
    assert sizes == [(2, 128), (2, 256), (4, 256)]
    assert all(len(x.phases) == 1 for x in updates)
    predicted = re.search(r"Predicted: ([\d,]+) s", capsys.readouterr().out)[1]
    assert 28_799 <= int(predicted.replace(",", "")) <= 28_800


def test_flags_of_the_text_go_into_the_plan(measured, tmp_path):
    path, vocab_file = tmp_path / "plan.cfg", str(tmp_path / "vocab.txt")
    corpus_flags = (
        f"--vocab_file={vocab_file}",
        "--packing=carry",
        "--nodo_lower_case",
        "--length_buckets=32,64",
    )
    _plan(
        "--hours=1",
        "--size=mini",
        "--corpus=demo",
        "--precision=bfloat16",
        f"--data_dir={tmp_path}",
        f"--output={path}",
        *corpus_flags,
    )
    config = _read(path)
    assert config.corpus.vocab_file == vocab_file
    assert config.corpus.vocab_size == 4096  # as counted
    assert config.corpus.packing == "carry"
    assert not config.corpus.do_lower_case
    assert config.corpus.length_buckets == (32, 64)
    assert config.training.precision == "bfloat16"
    assert config.run.data_dir == str(tmp_path)
    assert all(not x.corpus.do_lower_case for x in measured)


def test_buckets_may_be_longer_than_the_rows_of_another_size_or_phase(
    measured, tmp_path
):
    path = tmp_path / "plan.cfg"
    _plan(
        "--hours=1",
        "--size=mini",
        "--corpus=demo",
        "--packing=carry",
        "--length_buckets=32,96",
        f"--output={path}",
    )
    assert _read(path).corpus.length_buckets == (32, 96)
    counted, *_, update = measured
    assert counted.corpus.length_buckets == (32,)
    assert update.corpus.row_lengths == (32, 64)


@pytest.mark.parametrize(
    ("size", "length", "positions"),
    [
        ("base", 128, 512),
        ("base", 256, 512),
        ("demo", 128, 128),
        ("mini", 128, 128),
    ],
)
def test_rows_of_a_given_length_are_planned(
    measured, tmp_path, size, length, positions
):
    path = tmp_path / "plan.cfg"
    _plan(
        "--hours=9000",
        "--corpus=demo",
        f"--size={size}",
        f"--max_seq_length={length}",
        f"--output={path}",
    )
    config = _read(path)
    assert [x.max_seq_length for x in config.phases] == [length]
    assert not config.training.shift_positions
    assert all(x.corpus.max_seq_length == length for x in measured)
    shape = config.model.discriminator(1)
    assert shape.max_position_embeddings == positions


def test_sizes_that_do_not_fit_and_idle_hours_are_reported(
    measured, monkeypatch, capsys
):
    free = types.SimpleNamespace(num_bytes=2e9)
    monkeypatch.setattr(plan.free_memory, "find", lambda: free)
    _plan("--hours=8", "--corpus=demo")
    assert "does not fit" in capsys.readouterr().out
    _plan("--hours=9000", "--corpus=demo", "--size=mini")
    stdout = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Training stops after \d+ epochs, [\de.+]+ hours", stdout)


def test_too_little_time_is_reported(measured, capsys):
    _plan("--hours=0.03", "--corpus=demo")
    stdout = " ".join(capsys.readouterr().out.split())
    assert "No size reads enough tokens; demo is the smallest." in stdout
    assert "--num_train_steps=1960" in stdout  # (108 - 10) / 0.05


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "`hours` must be positive"),
        (("--hours=-1",), "`hours` must be positive"),
        (("--hours=1", "--size=tiny"), "--size"),
        (("--hours=1", f"--output={__file__}"), "must name a new file"),
        (("--hours=0.001",), "time and text for 100 updates"),
        (
            (
                "--hours=1",
                "--max_seq_length=128",
                "--seq_length_phases=64:1",
            ),
            "longest of",
        ),
        (("--hours=1", "--corpus=my #1 book.txt"), "no space before a #"),
        (
            ("--hours=1", "--data_dir=my #1 run"),
            "`data_dir` must have no space",
        ),
    ],
)
def test_impossible_plans_are_refused(measured, arguments, message):
    with pytest.raises(UserError, match=message):
        _plan("--corpus=demo", *arguments)


@pytest.mark.slow
def test_a_plan_can_be_trained(tmp_path):
    """The whole command, and the first updates of what it wrote."""
    path, data_dir = tmp_path / "plan.cfg", tmp_path / "data"
    ended = _run(
        "plan",
        "--hours=0.05",
        "--size=demo",
        "--corpus=demo",
        f"--data_dir={data_dir}",
        f"--output={path}",
    )
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr
    ended = _run(
        "run_pretraining",
        f"--flagfile={path}",
        "--num_train_steps=20",
        "--num_warmup_steps=2",
        "--nodo_eval",
        "--nodo_export",
    )
    assert ended.returncode == 0, ended.stderr


def _run(name, *arguments):
    command = [sys.executable, "-m", f"electra_tf.{name}", *arguments]
    return subprocess.run(command, capture_output=True, text=True)
