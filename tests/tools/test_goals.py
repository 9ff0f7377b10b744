"""The verdicts of the table of goals, from made-up reports."""

import json
import os

import goals
import pytest

from electra_tf.util.errors import UserError


def _report(*, ratio, ceiling, weights, memory):
    precisions = ("float32", "bfloat16")
    ours = {name: f"electra_tf-{name}" for name in precisions}
    return {
        "torch_over_electra_tf": {
            name: {"wall": ratio, "cpu": 0.0} for name in precisions
        },
        "seconds_per_step": {
            x: {"wall": {"median": 1.0}, "cpu": {"median": 0.0}}
            for x in ours.values()
        },
        "update": {
            x: {"share_of_ceiling": ceiling, "weights_update_share": weights}
            for x in ours.values()
        },
        "peak_memory_gb": {x: memory for x in ours.values()},
    }


def _reports(*, update, start, help_seconds, **figures):
    return {name: _report(**figures) for name in goals.MEASUREMENTS} | {
        "real_run": {
            "seconds_per_update": {"median": update},
            "seconds_to_first_update": start,
        },
        "help": {"seconds": {"median": help_seconds}},
    }


GOOD = _reports(
    **{"ratio": 1.7, "ceiling": 0.65, "weights": 0.05, "memory": 1.8},
    **{"update": 1.05, "start": 25.0, "help_seconds": 1.0},
)
BAD = _reports(
    **{"ratio": 1.19, "ceiling": 0.54, "weights": 0.051, "memory": 5.06},
    **{"update": 1.06, "start": 25.1, "help_seconds": 1.01},
)


@pytest.mark.parametrize("row", goals.ROWS, ids=lambda row: row.name)
def test_a_bound_that_is_reached_passes_and_one_that_is_not_falls_short(row):
    good = goals.judge(row, GOOD, has_bfloat16=True)
    bad = goals.judge(row, BAD, has_bfloat16=True)
    assert (good.verdict, bad.verdict) == ("pass", "falls short")
    assert good.measured and bad.measured and good.goal == bad.goal


def test_goals_keep_their_bounds():
    bounds = {row.name: str(row.goal) for row in goals.ROWS}
    assert len(bounds) == len(goals.ROWS)
    assert bounds["faster_small_float32"] == ">= 1.50 times"
    assert bounds["faster_small_bfloat16"] == ">= 1.70 times"
    assert bounds["faster_base_2x512_float32"] == ">= 1.20 times"
    assert bounds["faster_finetune_bfloat16"] == ">= 1.30 times"
    assert bounds["ceiling_float32"] == ">= 65.0 %"
    assert bounds["ceiling_bfloat16"] == ">= 55.0 %"
    assert bounds["weights_update"] == "<= 5.0 %"
    assert bounds["faster_base_8x128_float32"] == ">= 1.20 times"
    assert bounds["faster_finetune_float32"] == ">= 1.30 times"
    assert bounds["real_run"] == "<= 1.05 times"
    assert bounds["memory_32"] == "<= 1.80 GB"
    assert bounds["memory_128"] == "<= 5.05 GB"
    assert bounds["cold_start"] == "<= 25.00 s"
    for row in goals.ROWS:
        assert set(row.sources) <= goals.MEASUREMENTS.keys()


@pytest.fixture
def measured(monkeypatch):
    """Fakes measurements; returns the names of those that were made."""
    names = []

    def fake(name):
        def measure(config):
            names.append(name)
            if name == "help":
                raise UserError("exit code 2 of it. Received: nothing.")
            return GOOD[name]

        return measure

    fakes = {name: fake(name) for name in goals.MEASUREMENTS}
    monkeypatch.setattr(goals, "MEASUREMENTS", fakes)
    return names


def test_each_measurement_is_made_once(measured, capsys, monkeypatch):
    monkeypatch.setattr(goals.machine, "has_bfloat16", lambda: True)
    goals.main(goals.GoalsConfig())
    assert sorted(measured) == sorted(goals.MEASUREMENTS)
    output = capsys.readouterr()
    report = json.loads(output.out)
    assert report["reports"]["real_run"] == GOOD["real_run"]
    verdicts = {x["row"]: x["verdict"] for x in report["goals"]}
    assert list(verdicts) == [row.name for row in goals.ROWS]
    assert verdicts.pop("help") == "not run: exit code 2 of it"
    assert set(verdicts.values()) == {"pass"}
    (line,) = [x for x in output.err.splitlines() if x.startswith("real_run")]
    assert line.split() == "real_run 1.05 times <= 1.05 times pass".split()


def test_chosen_rows_measure_what_they_need(measured, capsys):
    goals.main(goals.GoalsConfig(rows=("real_run", "memory_32")))
    assert sorted(measured) == ["real_run", "small_float32"]
    assert len(json.loads(capsys.readouterr().out)["goals"]) == 2


def test_without_bfloat16_its_rows_are_not_run(measured, capsys, monkeypatch):
    monkeypatch.setattr(goals.machine, "has_bfloat16", lambda: False)
    rows = ("faster_small_bfloat16", "ceiling_float32")
    goals.main(goals.GoalsConfig(rows=rows))
    assert measured == ["small_float32"]
    verdicts = json.loads(capsys.readouterr().out)["goals"]
    assert [x["verdict"] for x in verdicts] == ["not run: no bfloat16", "pass"]


def test_unknown_rows_are_refused():
    with pytest.raises(UserError, match=r"`rows` must be of .*help"):
        goals.GoalsConfig(rows=("helo",))


def test_only_environments_that_the_rows_need_must_exist(measured, tmp_path):
    python = tmp_path / "electra_tf/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    settings = {"environments": str(tmp_path)}
    goals.main(goals.GoalsConfig(rows=("memory_128", "help"), **settings))
    with pytest.raises(UserError, match="the environment of torch"):
        goals.main(goals.GoalsConfig(rows=("memory_32", "help"), **settings))


def test_a_failing_command_is_named(tmp_path):
    (tmp_path / "broken.py").write_text("raise SystemExit(4)")
    with pytest.raises(UserError, match=r"exit code 4 of .*broken\.py"):
        goals._output(goals.GoalsConfig(), str(tmp_path / "broken.py"))


def test_names_of_measurements_set_the_flags(monkeypatch):
    calls = []
    monkeypatch.setattr(goals, "_output", lambda config, *words: "{}")
    monkeypatch.setattr(
        goals, "_run", lambda config, *words: calls.append(words) or {}
    )
    config = goals.GoalsConfig(turns=3, data_dir="there")
    goals.MEASUREMENTS["base_2x512_bfloat16"](config)
    goals.MEASUREMENTS["finetune_float32"](config)
    goals.MEASUREMENTS["small_128_rows"](config)
    goals.MEASUREMENTS["real_run"](config)
    peers, finetune, rows, real = calls
    assert "--job=finetune" in finetune and "--job=finetune" not in peers
    assert set(rows) >= {"--batch_size=128", "--peers=electra_tf"}
    assert set(peers) >= {
        "peer_step.py",
        "--size=base",
        "--batch_size=2",
        "--max_seq_length=512",
        "--precisions=bfloat16",
        "--turns=3",
        "--threads=2",
        "--environments=",
    }
    assert real[0] == "pretrain_step.py"
    assert set(real) >= {"--data_dir=there", "--train_batch_size=32"}


def test_every_benchmark_has_the_same_threads_limit_and_checkout(tmp_path):
    (tmp_path / "tool.py").write_text(
        "import json, os, sys\n"
        "print(json.dumps([sys.argv[1:], dict(os.environ)]))"
    )
    config = goals.GoalsConfig(busy_limit=0.25)
    words, variables = goals._run(config, str(tmp_path / "tool.py"), "--x")
    assert words == ["--x", "--busy_limit=0.25"]
    assert variables["TF_NUM_INTRAOP_THREADS"] == "2"
    assert variables["TF_NUM_INTEROP_THREADS"] == "2"
    path = variables["PYTHONPATH"].partition(os.pathsep)[0]
    assert path == str(goals.environments.ROOT)
