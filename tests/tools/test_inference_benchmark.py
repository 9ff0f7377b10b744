"""The inference benchmark: what it prints and what it refuses."""

import json
import pathlib

import inference
import numpy as np
import pytest
from peers import random_rows

from electra_tf.util.errors import UserError


class _Worker:
    """A fake worker that answers with fixed times and states."""

    seconds = {"saved_model": 2e-3, "onnx": 1e-3, "torch": 4e-3}
    error = {}
    counts = {}

    def __init__(self, name, setting, directory):
        self.name, self.turn, self.pid = name, 0, 1
        self.versions = {name: "1.0"}

    def encode(self, shape, count, output=""):
        if output:
            states = np.ones((*shape, 8)) + self.error.get(self.name, 0)
            np.save(output, states)
        self.counts.setdefault(self.name, []).append(count)
        self.turn += 1
        return self.seconds.get(self.name, 1.0) * self.turn

    def close(self):
        pass


def _run(monkeypatch, capsys, error):
    monkeypatch.setattr(inference, "Worker", _Worker)
    monkeypatch.setattr(_Worker, "error", error)
    monkeypatch.setattr(_Worker, "counts", {})
    config = inference.BenchmarkConfig(
        peers=("saved_model", "torch", "onnx"),
        batch_sizes=(2,),
        lengths=(8,),
        turns=3,
        busy_limit=1.0,
    )
    inference.main(config)
    return json.loads(capsys.readouterr().out)


def test_ratios_are_to_the_fastest_rival_turn_by_turn(monkeypatch, capsys):
    report = _run(monkeypatch, capsys, {"torch": 1e-4})
    shape = report["shapes"]["2x8"]
    assert shape["ours_over_fastest_rival"] == {
        "saved_model": pytest.approx(2.0)
    }
    assert shape["milliseconds"]["torch"]["median"] == pytest.approx(16.0)
    assert shape["largest_difference"] == pytest.approx(1e-4)
    assert report["onnx"] == "1.0" and report["cores"]
    # A warm-up, a call that takes 4 ms, and turns of about 0.2 s.
    assert _Worker.counts["saved_model"] == [2, 1, 50, 50, 50]


def test_states_are_compared_with_onnx_runtime_at_tokens(monkeypatch, capsys):
    rng = np.random.default_rng(0)
    _, mask = random_rows(rng, 30522, (2, 8))
    padding = np.where(mask, 0.0, 5.0)[..., None]
    assert padding.max() == 5
    error = {"saved_model": 1e-4, "torch": 3e-4 + padding}
    report = _run(monkeypatch, capsys, error)
    shape = report["shapes"]["2x8"]
    assert shape["largest_difference"] == pytest.approx(3e-4)


def test_rivals_run_in_an_environment_of_their_own(monkeypatch):
    found = {}

    def start(self, script, names, setting, python):
        found[names[0]] = python

    monkeypatch.setattr(inference.workers.Worker, "__init__", start)
    monkeypatch.setattr(inference.environments, "find_python", pathlib.Path)
    for name in ("saved_model", "exported_onnx", "torch", "onnx_fused"):
        inference.Worker(name, None, "there")
    assert {name: path.name for name, path in found.items()} == {
        "saved_model": "electra_tf",
        "exported_onnx": "electra_tf",
        "torch": "onnx",
        "onnx_fused": "onnx",
    }


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"peers": ("torch_files",)}, "`peers` must be some of saved_model"),
        ({"peers": ()}, "`peers` must be some of saved_model"),
        ({"lengths": ()}, "`lengths` must be numbers from 1"),
        ({"batch_sizes": (1, 0)}, "`batch_sizes` must be numbers from 1"),
    ],
)
def test_invalid_flags_are_refused(flags, message):
    with pytest.raises(UserError, match=message):
        inference.BenchmarkConfig(**flags)


def test_differing_states_are_refused(monkeypatch, capsys):
    with pytest.raises(UserError, match="from torch"):
        _run(monkeypatch, capsys, {"torch": 2e-3})
    with pytest.raises(UserError, match="from torch"):
        _run(monkeypatch, capsys, {"torch": np.nan})
