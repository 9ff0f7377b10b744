"""The benchmark against PyTorch: what it trains and what it prints."""

import dataclasses
import json
import math

import finetune_peers
import peer_step
import pretrain_peers
import pytest

from electra_tf.util.errors import UserError

TINY = {
    "batch_size": 2,
    "max_seq_length": 8,
    "num_hidden_layers": 1,
    "vocab_size": 40,
    "threads": 1,
    "turns": 2,
    "steps": 1,
    "busy_limit": 1.0,
}


@pytest.fixture(scope="module")
def tool():
    return peer_step


class _Worker:
    """A fake worker that answers with fixed times."""

    counts = []
    num_open = 0
    pythons = {}

    def __init__(self, job, peer, setting, python):
        _Worker.num_open += 1
        self.pythons[peer] = python
        rank = {"": 1, "fused": 3, "foreach": 2, "compiled": 4}
        rank = rank[setting.variant]
        half = 2 if setting.precision == "bfloat16" else 1
        self.is_ours = peer == "electra_tf"
        self.pid, self.versions = 1, {peer: "1.0"}
        self.seconds = rank / half
        self.turns = 0

    def update(self, count):
        self.counts.append(count)
        self.turns += 1
        seconds = self.seconds * self.turns
        return {
            "cpu": seconds,
            "wall": 10 * seconds,
            "loss": 0.5,
            "peak_memory_gb": seconds,
        }

    def figures(self):
        if not self.is_ours:
            return {}
        return {
            "gflop_per_step": 600.0,
            "ceiling_gflop_per_second": 100.0,
            "weights_update_seconds": 1.0,
        }

    def close(self):
        _Worker.num_open -= 1


def test_ratios_are_to_the_fastest_variant_turn_by_turn(
    tool, monkeypatch, capsys
):
    monkeypatch.setattr(tool, "Worker", _Worker)
    monkeypatch.setattr(_Worker, "counts", [])
    tool.main(tool.BenchmarkConfig(turns=3, steps=4, busy_limit=1.0))
    report = json.loads(capsys.readouterr().out)
    assert _Worker.counts == 3 * 8 * [4] and not _Worker.num_open
    assert report["torch"] == report["electra_tf"] == "1.0"
    assert report["torch_over_electra_tf"] == {
        precision: {"cpu": 2.0, "wall": 2.0}
        for precision in ("float32", "bfloat16")
    }
    seconds = report["seconds_per_step"]
    assert len(seconds) == 8
    expected = {"min": 1.5, "median": 3.0, "max": 4.5}
    assert seconds["torch-bfloat16-fused"]["cpu"] == expected
    assert seconds["electra_tf-float32"]["wall"]["max"] == 30.0
    assert report["peak_memory_gb"]["torch-float32-fused"] == 9.0


def test_figures_of_an_update_become_shares_of_its_time(
    tool, monkeypatch, capsys
):
    monkeypatch.setattr(tool, "Worker", _Worker)
    tool.main(
        tool.BenchmarkConfig(turns=3, busy_limit=1.0, precisions=("float32",))
    )
    report = json.loads(capsys.readouterr().out)
    assert set(report["update"]) == {"electra_tf-float32"}
    update = report["update"]["electra_tf-float32"]  # takes 20 s
    assert update["share_of_ceiling"] == pytest.approx(0.3)
    assert update["weights_update_share"] == pytest.approx(0.05)
    assert update["gflop_per_step"] == 600.0


def test_each_peer_runs_in_its_environment(tool, monkeypatch, tmp_path):
    pythons = {x: tmp_path / x / "bin/python" for x in tool.VARIANTS}
    for path in pythons.values():
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.setattr(tool, "Worker", _Worker)
    monkeypatch.setattr(_Worker, "pythons", {})
    where = {"environments": str(tmp_path), "busy_limit": 1.0}
    tool.main(tool.BenchmarkConfig(**where))
    assert {x: str(y) for x, y in pythons.items()} == _Worker.pythons


def test_the_first_updates_of_a_worker_are_not_timed(tool, monkeypatch):
    requests = []
    base = tool.workers.Worker
    monkeypatch.setattr(base, "__init__", lambda *_: None)
    monkeypatch.setattr(base, "ask", lambda _, x: requests.append(x))
    setting = tool.BenchmarkConfig(**TINY).setting("float32", "")
    assert (setting.batch_size, setting.length, setting.threads) == (2, 8, 1)
    tool.Worker("pretrain", "electra_tf", setting)
    assert requests == [2]


def test_workers_end_if_one_of_them_does_not_start(tool, monkeypatch):
    class Worker(_Worker):
        def __init__(self, job, peer, setting, python):
            if setting.variant == "compiled":
                raise UserError("no compiler")
            super().__init__(job, peer, setting, python)

    monkeypatch.setattr(tool, "Worker", Worker)
    with pytest.raises(UserError, match="no compiler"):
        tool.main(tool.BenchmarkConfig(busy_limit=1.0))
    assert not _Worker.num_open


def test_unknown_peers_and_precisions_are_refused(tool):
    with pytest.raises(UserError, match=r"`peers` must be some of torch"):
        tool.BenchmarkConfig(peers=("jax",))
    with pytest.raises(UserError, match=r"`precisions` must be some of"):
        tool.BenchmarkConfig(precisions=())


def test_a_worker_that_ends_is_an_error(tool, capfd):
    setting = tool.BenchmarkConfig(**TINY).setting("float32", "")
    with pytest.raises(UserError, match="A worker must answer"):
        tool.Worker("pretrain", "numpy", setting)
    assert "invalid choice" in capfd.readouterr().err


def test_rows_are_reproducible_and_at_least_half_filled(tool):
    config = tool.BenchmarkConfig(batch_size=50)
    setting = config.setting("float32", "")
    batches = [finetune_peers.batch(setting) for _ in range(2)]
    for name, first in batches[0].items():
        assert (first == batches[1][name]).all()
    ids, mask = batches[0]["ids"], batches[0]["mask"]
    sizes = mask.sum(1)
    assert ids.shape == (50, 128) and ids.max() < 30522
    assert sizes.min() >= 64 and sizes.max() == 128
    assert ((ids > 0) == (mask > 0)).all()


def test_rows_of_pre_training_are_filled_with_words(tool):
    config = tool.BenchmarkConfig(batch_size=50, vocab_size=40)
    ids = pretrain_peers.batch(config.setting("float32", ""))
    assert ids.shape == (50, 128) and ids.min() == 5 and ids.max() == 39


@pytest.mark.slow
@pytest.mark.parametrize("job", ["pretrain", "finetune"])
def test_ours_is_measured_alone(tool, capsys, job):
    tool.main(tool.BenchmarkConfig(**TINY, job=job, peers=("electra_tf",)))
    report = json.loads(capsys.readouterr().out)
    assert set(report["seconds_per_step"]) == {
        "electra_tf-float32",
        "electra_tf-bfloat16",
    }
    assert report["tensorflow"] and report["torch_over_electra_tf"] == {}
    assert all(0.1 < x < 10 for x in report["peak_memory_gb"].values())
    is_known = job == "pretrain"  # the matrix products of an update
    assert set(report["update"]) == (
        set(report["seconds_per_step"]) if is_known else set()
    )


@pytest.mark.slow
def test_packed_rows_are_trained_on(tool):
    setting = tool.BenchmarkConfig(**TINY).setting("float32", "")
    setting = dataclasses.replace(setting, packed_share=0.5)
    worker = tool.Worker("pretrain", "electra_tf", setting)
    assert math.isfinite(worker.update(1)["loss"])
    worker.close()


@pytest.mark.huggingface
@pytest.mark.parametrize(
    ("job", "variant"), [("pretrain", "fused"), ("finetune", "foreach")]
)
def test_each_peer_is_measured(tool, capsys, monkeypatch, job, variant):
    # torch.compile takes a minute, and a compiler.
    kinds = {"torch": (variant,), "electra_tf": ("",)}
    monkeypatch.setattr(tool, "VARIANTS", kinds)
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    tool.main(tool.BenchmarkConfig(**TINY, job=job))
    report = json.loads(capsys.readouterr().out)
    assert report["torch"] and report["tensorflow"]
    for times in report["seconds_per_step"].values():
        assert 0 < times["cpu"]["min"] <= times["cpu"]["max"]
    assert set(report["torch_over_electra_tf"]) == {"float32", "bfloat16"}
