"""The load test of served models: requests, percentiles and refusals."""

import json
import pathlib
import time

import numpy as np
import pytest
import serving_load
import serving_peers

from electra_tf.data import demo_corpus
from electra_tf.util.errors import UserError

LATENCIES = {"kserve": 0.2, "saved_model": 0.1, "torch": 0.4, "onnx": 0.05}
"""Seconds of the first request of a peer; each later one takes as much more."""


class _Worker:
    """A fake worker that answers with fixed times and probabilities."""

    others = {}

    def __init__(self, peer, environment, setting, directory):
        files = pathlib.Path(setting.directory)
        self.texts = json.loads((files / serving_peers.TEXTS).read_text())
        self.vocabulary = (files / "vocab.txt").read_text().split()
        assert len(self.vocabulary) == setting.sizes["vocab_size"]
        self.peer, self.pid, self.turn = peer, 1, 0
        self.versions = {peer: environment}

    def load(self, num_clients, seconds):
        first = LATENCIES[self.peer]
        self.turn += 1
        latencies = [first * (i + 1) for i in range(4)]
        return {"latencies": latencies, "seconds": first * self.turn}

    def probabilities(self, num_texts):
        found = [[0.25, 0.5], [0.75]]
        return self.others.get(self.peer, found)

    def close(self):
        pass


def _run(monkeypatch, capsys, others=(), **flags):
    documents = [["the chef ate the meal", "a meal"], ["the end of the day"]]
    monkeypatch.setattr(demo_corpus, "documents", lambda: iter(documents))
    monkeypatch.setattr(serving_load, "Worker", _Worker)
    monkeypatch.setattr(_Worker, "others", dict(others))
    monkeypatch.setattr(serving_load.environments, "find_python", None)
    serving_load.main(
        serving_load.BenchmarkConfig(
            turns=3, busy_limit=1.0, num_texts=5, vocab_size=60, **flags
        )
    )
    found = capsys.readouterr()
    return json.loads(found.out), found.err


def test_percentiles_are_of_all_requests_and_rates_turn_by_turn(
    monkeypatch, capsys
):
    report, text = _run(monkeypatch, capsys, clients=(1, 8))
    assert list(report["load"]) == ["1", "8"]
    assert len(report["load"]["8"]) == 4
    figures = report["load"]["1"]["kserve"]
    # 0.2, 0.4, 0.6 and 0.8 s, in each of three turns.
    sample = np.sort(np.tile([200.0, 400.0, 600.0, 800.0], 3))
    assert figures["requests"] == 12
    assert figures["p50_ms"] == pytest.approx((sample[5] + sample[6]) / 2)
    place = 0.99 * 11  # between the two largest
    assert figures["p99_ms"] == pytest.approx(
        sample[10] + (place - 10) * (sample[11] - sample[10])
    )
    # The turn of the warm-up is the first and does not count.
    rates = figures["requests_per_second"]
    assert rates["max"] == pytest.approx(4 / (0.2 * 2))
    assert rates["median"] == pytest.approx(4 / (0.2 * 3))
    assert report["onnx"] == "onnx" and report["saved_model"] == "electra_tf"
    assert report["num_tokens"] == {"min": 1, "median": 1.5, "max": 2}
    assert "500.0, 800.0, 6.7 |" in text


def test_the_99th_percentile_is_that_of_the_slowest_requests():
    turn = {"latencies": [i / 1000 for i in range(101)], "seconds": 1.0}
    figures = serving_load.summary({"torch": [turn]})["torch"]
    assert figures["p50_ms"] == pytest.approx(50)
    assert figures["p99_ms"] == pytest.approx(99)


def test_ours_are_compared_with_the_fastest_rival(monkeypatch, capsys):
    report, _ = _run(monkeypatch, capsys, clients=(1,))
    load = report["load"]["1"]
    ratios = {
        name: found["rate_over_fastest_rival"]
        for name, found in load.items()
        if "rate_over_fastest_rival" in found
    }
    assert ratios == {  # to ONNX Runtime's
        "kserve": pytest.approx(0.05 / 0.2),
        "saved_model": pytest.approx(0.05 / 0.1),
    }
    report, _ = _run(monkeypatch, capsys, clients=(1,), peers=("kserve",))
    assert "rate_over_fastest_rival" not in str(report)


@pytest.mark.parametrize(
    "found",
    [
        [[0.25, 0.502], [0.75]],
        [[0.25, np.nan], [0.75]],
        [[0.25], [0.5, 0.75]],
    ],
)
def test_differing_probabilities_are_refused(monkeypatch, capsys, found):
    with pytest.raises(UserError, match="from torch"):
        _run(monkeypatch, capsys, {"torch": found})


def test_a_small_difference_is_told(monkeypatch, capsys):
    others = {"torch": [[0.25, 0.5], [0.7501]]}
    report, _ = _run(monkeypatch, capsys, others)
    assert report["largest_difference"] == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"clients": (0,)}, "`clients` must be numbers from 1"),
        ({"clients": ()}, "`clients` must be numbers from 1"),
        ({"peers": ("jax",)}, "`peers` must be some of kserve"),
        ({"seconds": 0.0}, "`seconds` must be above 0"),
        ({"busy_limit": 2.0}, r"`busy_limit` must be in \[0, 1\]"),
    ],
)
def test_invalid_flags_are_refused(flags, message):
    with pytest.raises(UserError, match=message):
        serving_load.BenchmarkConfig(**flags)


def test_clients_ask_at_once_and_each_waits_for_its_answer():
    pending, num_pending, answered = [], [], []

    def connect():
        def ask(text):
            pending.append(text)
            num_pending.append(len(pending))
            time.sleep(0.002)
            pending.remove(text)
            answered.append(text)

        return ask

    texts = ["a", "b", "c", "d"]
    found = serving_peers.load(connect, texts, 4, 0.05)
    assert max(num_pending) == 4
    assert len(found["latencies"]) == len(answered)
    assert min(found["latencies"]) >= 0.002
    # Each of four clients asked one after the other all the time.
    assert sum(found["latencies"]) <= 4 * found["seconds"]
    assert set(answered) == set(texts)
    once = serving_peers.load(connect, texts, 3, 0.0)
    assert len(once["latencies"]) == 3
    assert set(answered[-3:]) == {"a", "b", "c"}  # each begins elsewhere


@pytest.mark.huggingface
def test_ours_and_hugging_faces_answer_alike(monkeypatch, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    documents = [[f"The chef number {i} ate the meal."] for i in range(50)]
    monkeypatch.setattr(demo_corpus, "documents", lambda: iter(documents))
    serving_load.main(
        serving_load.BenchmarkConfig(
            peers=("saved_model", "torch"),
            clients=(1, 4),
            turns=1,
            seconds=0.2,
            busy_limit=1.0,
            num_texts=8,
            vocab_size=100,
            num_hidden_layers=1,
        )
    )
    report = json.loads(capsys.readouterr().out)
    assert report["torch"] and report["tensorflow"]
    assert report["largest_difference"] < 1e-3
    for found in report["load"].values():
        assert set(found) == {"saved_model", "torch"}
        assert all(x["requests"] >= 1 for x in found.values())
