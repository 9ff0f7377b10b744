"""The benchmark of exports in lower precision: figures and order of turns."""

import json

import export_precision
import numpy as np
import peers
import pytest


@pytest.mark.slow
def test_lower_precision_saves_bytes_and_keeps_the_states(
    monkeypatch, capsys, products_in_bfloat16
):
    monkeypatch.setitem(peers._SIZES, "small", (16, 16, 2))
    config = export_precision.BenchmarkConfig(
        batch_sizes=(2,), length=8, turns=2, seconds=0.0
    )
    export_precision.main(config)
    report = json.loads(capsys.readouterr().out)
    size, difference = report["bytes"], report["largest_difference"]
    # Nearly all bytes are a table of 30,522 x 16 weights: 4 bytes each, or 1
    # byte each and a scale for each row.
    saved = 30522 * (4 * 16 - (16 + 4))
    assert size["float32"] - size["int8"] == pytest.approx(saved, rel=0.05)
    assert difference["float32"] == 0
    assert 0 < difference["bfloat16"] < 0.1 and 0 < difference["int8"] < 0.1
    assert report["milliseconds"]["2x8"].keys() == size.keys()


def test_each_turn_reverses_the_order_of_the_models(monkeypatch):
    order = []

    def seconds(model, num_rows, count):
        assert num_rows == 4
        order.append((model, count))
        return {"a": 0.1, "b": 0.4}[model]

    monkeypatch.setattr(export_precision, "_seconds", seconds)
    config = export_precision.BenchmarkConfig(turns=3, seconds=0.8)
    models = {"float32": "a", "int8": "b"}
    found = export_precision._measure(config, models, 4)
    once, turns = order[:2], order[2:]
    assert once == [("a", 1), ("b", 1)]
    # Calls that take 0.8 s: eight of 0.1 s, two of 0.4 s.
    first, other = ("a", 8), ("b", 2)
    assert turns == [first, other, other, first, first, other]
    assert found["int8"]["median"] == pytest.approx(400)
    assert np.isclose(found["float32"]["max"], 100)
