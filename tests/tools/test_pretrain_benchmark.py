"""The benchmark of pre-training: what it runs, and what it prints."""

import json
import resource

import pretrain_step
import pytest
import tiny


def _look(step, seconds, user, kernel, faults):
    fields = [0] * 16
    fields[:3], fields[6] = (user, kernel, 2**20), faults
    return pretrain_step.Look(step, seconds, resource.struct_rusage(fields))


def test_figures_are_those_of_updates_after_the_first_looks():
    warm = [_look(step, 100 * step, 9, 9, 999) for step in (1, 2)]
    looks = [
        *warm,
        _look(4, 200, 10, 10, 1000),
        _look(8, 204, 16, 12, 1040),  # 1 s an update
        _look(9, 206, 17, 13, 1040),  # 2 s
        _look(11, 207, 20, 14, 1042),  # 0.5 s
    ]
    report = pretrain_step._figures(looks, tiny.config(train_batch_size=8), 60)
    assert report["seconds_per_update"] == {"min": 0.5, "median": 1, "max": 2}
    assert report["page_faults_per_update"] == {
        "min": 0,
        "median": 1,
        "max": 10,
    }
    assert report["user_seconds_per_update"]["median"] == 1.5
    assert report["kernel_share_of_cpu"] == pytest.approx(4 / 14)
    assert report["sequences_per_second"] == 8
    assert report["peak_memory_gib"] == 1


def test_it_trains_on_records_and_leaves_no_model(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(pretrain_step, "_SECONDS_A_PIECE", 0.0)
    (tmp_path / "corpus.txt").write_text("some words of text\n" * 400)
    config = tiny.config(
        tmp_path,
        corpus=(str(tmp_path / "corpus.txt"),),
        vocab_size=40,
        objective="mlm",
        num_hidden_layers=1,
        num_train_steps=1000,
        iterations_per_loop=1,
    )
    pretrain_step.main(config)
    report = json.loads(capsys.readouterr().out)
    assert report["batch_size"] == 8
    assert report["cores"] > 0
    assert report["page_faults_per_update"]["median"] >= 0
    assert report["seconds_to_first_update"] > 0
    assert (tmp_path / "pretrain_tfrecords/manifest.json").exists()
    assert not (tmp_path / "models" / pretrain_step._MODEL_NAME).exists()
