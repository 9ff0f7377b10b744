"""The comparison with PyTorch: what is trained, and what it prints."""

import json

import finetune_peers
import peer_step
import peers
import pretrain_peers
import pytest

TINY = {
    "batch_size": 2,
    "max_seq_length": 8,
    "num_hidden_layers": 1,
    "vocab_size": 40,
    "threads": 1,
    "turns": 2,
    "steps": 1,
}


@pytest.fixture(scope="module")
def tool():
    return peer_step


class _Worker:
    """Answers with times that are known beforehand."""

    def __init__(self, job, peer, setting):
        setting = json.loads(setting)
        rank = {"": 1, "fused": 3, "foreach": 2, "compiled": 4}
        rank = rank[setting["variant"]]
        half = 2 if setting["precision"] == "bfloat16" else 1
        self.versions = {peer: "1.0"}
        self.seconds = rank / half
        self.turns = 0

    def update(self, count):
        self.turns += 1
        seconds = self.seconds * self.turns
        return {"cpu": seconds, "wall": 10 * seconds, "loss": 0.5}

    def close(self):
        pass


def test_ratios_are_to_the_fastest_variant_turn_by_turn(
    tool, monkeypatch, capsys
):
    monkeypatch.setattr(tool, "Worker", _Worker)
    tool.main(tool.BenchmarkConfig(turns=3))
    report = json.loads(capsys.readouterr().out)
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


def test_rows_are_alike_for_all_and_half_filled_or_more(tool):
    config = tool.BenchmarkConfig(batch_size=50)
    setting = json.loads(config.setting("float32", ""))
    setting = peers.Setting(**setting)
    made = [finetune_peers.batch(setting) for _ in range(2)]
    for name, first in made[0].items():
        assert (first == made[1][name]).all()
    ids, mask = made[0]["ids"], made[0]["mask"]
    sizes = mask.sum(1)
    assert ids.shape == (50, 128) and ids.max() < 30522
    assert sizes.min() >= 64 and sizes.max() == 128
    assert ((ids > 0) == (mask > 0)).all()


def test_rows_of_pre_training_are_filled_with_words(tool):
    config = tool.BenchmarkConfig(batch_size=50, vocab_size=40)
    setting = peers.Setting(**json.loads(config.setting("float32", "")))
    ids = pretrain_peers.batch(setting)
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


@pytest.mark.huggingface
@pytest.mark.parametrize("job", ["pretrain", "finetune"])
def test_peers_take_turns(tool, capsys, monkeypatch, job):
    # torch.compile takes a minute, and a compiler.
    kinds = {"torch": ("fused", "foreach"), "electra_tf": ("",)}
    monkeypatch.setattr(tool, "VARIANTS", kinds)
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    tool.main(tool.BenchmarkConfig(**TINY, job=job))
    report = json.loads(capsys.readouterr().out)
    assert report["torch"] and report["tensorflow"]
    for times in report["seconds_per_step"].values():
        assert 0 < times["cpu"]["min"] <= times["cpu"]["max"]
    assert set(report["torch_over_electra_tf"]) == {"float32", "bfloat16"}
