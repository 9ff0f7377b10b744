"""The benchmark of objectives: warm-up, rounds and ratios."""

import json
import sys
import types

import objective_steps
import pytest
import steps

_SECONDS = {"electra": 0.25, "mlm": 0.125}


class _Steps:
    """Fake updates; the first are traced, which takes a minute."""

    made = []

    def __init__(self, config):
        self.counts, self.late_steps = [], []
        iterations = types.SimpleNamespace(assign=self.late_steps.append)
        optimizer = types.SimpleNamespace(iterations=iterations)
        self.model = types.SimpleNamespace(optimizer=optimizer)
        self._seconds = _SECONDS.get(config.objective.objective, 1.0)
        self.made.append(self)

    def seconds(self, count):
        self.counts.append(count)
        return self._seconds if len(self.counts) > 1 else 60.0


@pytest.fixture
def reports(monkeypatch, capsys):
    monkeypatch.setattr(steps, "Steps", _Steps)
    monkeypatch.setattr(_Steps, "made", [])
    monkeypatch.setattr(objective_steps.memory, "keep", lambda: None)
    words = ["objective_steps.py", "--flagfile=configs/demo.cfg"]
    monkeypatch.setattr(sys, "argv", words)
    objective_steps.main(None)
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return {line["config"]: line for line in lines}


def test_updates_are_compared_with_those_of_electra(reports):
    assert reports["ablations/bert"]["objective"] == "mlm"
    assert reports["ablations/bert"]["ratio_to_electra"]["median"] == 0.5
    assert reports["ablations/bert"]["seconds_per_step"]["max"] == 0.125
    electra = reports["ablations/electra"]
    assert electra["ratio_to_electra"]["max"] == 1
    assert electra["flops_ratio_to_electra"] == 1


def test_blocks_of_a_second_follow_the_tracing_late_in_the_run(reports):
    assert reports
    for made in _Steps.made:
        assert made.late_steps == [3000]  # of 4,000
        assert made.counts[0] == 2 and made.counts[-7:] == 7 * [4]
