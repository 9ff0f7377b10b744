"""The scaling benchmark: its points, measurements and plots."""

import json

import pytest
import scaling

from electra_tf.util.errors import UserError


def _config(**flags):
    return scaling.ScalingConfig(**{"output_dir": "there"} | flags)


def test_one_size_changes_at_a_time():
    config = _config()
    settings = {x: scaling.setting(config, x) for x in scaling.points(config)}
    for point, made in settings.items():
        found = {
            "batch_size": made.batch_size,
            "max_seq_length": made.length,
            "packed_share": made.packed_share,
            **made.sizes,
        }
        assert found[point.dimension] == point.value
        usual = {
            "batch_size": 16,
            "max_seq_length": 128,
            "hidden_size": 256,
            "vocab_size": 30522,
            "packed_share": 0.0,
        }
        usual.pop(point.dimension)
        assert {name: found[name] for name in usual} == usual
        assert (
            made.sizes["hidden_size"] % made.sizes["num_attention_heads"] == 0
        )
        assert made.sizes["intermediate_size"] == 4 * made.sizes["hidden_size"]


def test_packed_rows_are_points_of_electra_tf_alone():
    found = list(scaling.points(_config()))
    packed = [x for x in found if x.dimension == "packed_share"]
    assert {x.peer for x in packed} == {"electra_tf"}
    others = {x[1:] for x in found if x.dimension != "packed_share"}
    assert {("torch", *x) for x in others} <= {tuple(x) for x in found}
    assert {("electra_tf", *x) for x in others} <= {tuple(x) for x in found}


def test_quick_measures_the_ends():
    quick = set(scaling.points(_config(quick=True)))
    assert len(quick) < len(list(scaling.points(_config()))) * 0.6
    for dimension, values in scaling.DIMENSIONS.items():
        ends = {x.value for x in quick if x.dimension == dimension}
        assert ends == {min(values), max(values)}


class _Worker:
    """A fake worker that answers with fixed times and memory."""

    made = []

    def __init__(self, job, peer, setting, python):
        _Worker.made.append((peer, setting.batch_size, setting.packed_share))
        self.pid, self.versions = 1, {peer: "1.0"}
        self.seconds = setting.batch_size * (2 if peer == "torch" else 1)
        self.num_updates = 0

    def update(self, count):
        self.num_updates += count
        slower = 4 if self.num_updates == 1 else 1
        return {"wall": slower * self.seconds, "peak_memory_gb": 1.5}

    def close(self):
        pass


def test_points_are_measured_once_and_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scaling, "Worker", _Worker)
    monkeypatch.setattr(_Worker, "made", [])
    config = _config(
        output_dir=str(tmp_path / "new"),
        dimensions=("batch_size", "packed_share"),
        busy_limit=1.0,
        turns=3,
    )
    draw, drawn = scaling.draw, {}

    def record(path, label, figures):
        drawn[path.name] = figures
        draw(path, label, figures)

    monkeypatch.setattr(scaling, "draw", record)
    scaling.main(config)
    point = scaling.Point("torch", "batch_size", 8)
    assert drawn["time.png"][point] == 16  # the fastest
    assert drawn["memory.png"][point] == 1.5
    report = json.loads(capsys.readouterr().out)
    # 16 rows that are not packed are in both dimensions.
    assert len(_Worker.made) == len(set(_Worker.made)) == 5 + 5 + 2
    assert len(report["points"]) == 13
    costs = {
        (x["peer"], x["dimension"], x["value"]): x["seconds_per_step"]["median"]
        for x in report["points"]
    }
    assert costs["torch", "batch_size", 8] == 16
    assert costs["electra_tf", "packed_share", 0.0] == 16
    assert report["torch"] == report["electra_tf"] == "1.0"
    for name in ("time.png", "memory.png"):
        picture = (tmp_path / "new" / name).read_bytes()
        assert picture.startswith(b"\x89PNG") and len(picture) < 60_000


def test_unknown_dimensions_and_missing_flags_are_refused():
    with pytest.raises(UserError, match="`output_dir` must name"):
        scaling.ScalingConfig()
    with pytest.raises(UserError, match=r"`dimensions` must be some of"):
        _config(dimensions=("depth",))
