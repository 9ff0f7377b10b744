"""The benchmark of pre-training: what it runs, and what it prints."""

import itertools
import json
import resource
import types

import machine
import pretrain_step
import pytest
import tiny

from electra_tf.pretrain import run as pretraining_run
from electra_tf.util.errors import UserError


def _snapshot(step, seconds, user, kernel, faults, *, is_counted=True):
    fields = [0] * 16
    fields[:3], fields[6] = (user, kernel, 2**20), faults
    usage = resource.struct_rusage(fields)
    return pretrain_step.Snapshot(step, seconds, usage, is_counted)


def test_figures_are_those_of_the_updates_that_count():
    warm = [
        _snapshot(step, 100 * step, 9, 9, 999, is_counted=False)
        for step in (1, 2)
    ]
    snapshots = [
        *warm,
        _snapshot(3, 190, 9, 9, 999, is_counted=False),  # disturbed
        _snapshot(4, 200, 10, 10, 1000, is_counted=False),
        _snapshot(8, 204, 16, 12, 1040),  # 1 s an update
        _snapshot(9, 206, 17, 13, 1040),  # 2 s
        _snapshot(11, 207, 20, 14, 1042),  # 0.5 s
    ]
    report = pretrain_step._figures(
        snapshots, tiny.config(train_batch_size=8), 60
    )
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
    assert report["gflop_per_second"] == 8 * report["gflop_per_sequence"]
    other = pretrain_step._figures(snapshots, tiny.config(objective="mlm"), 60)
    assert "gflop_per_sequence" not in other  # counted for electra only


def test_a_run_that_only_trains_is_measured_in_a_directory_of_its_own():
    config = tiny.config("there", do_eval=True, do_export=True)
    run = pretrain_step._training_only(config).run
    assert run.do_train and not run.do_eval and not run.do_export
    assert run.model_dir != config.run.model_dir  # it is removed afterwards


def test_a_run_too_short_for_a_piece_is_refused():
    snapshots = [_snapshot(1, 190, 9, 9, 999, is_counted=False)]
    with pytest.raises(UserError, match="Received: num_train_steps=20"):
        pretrain_step._figures(snapshots, tiny.config(), 60)


@pytest.mark.slow
def test_the_benchmark_trains_on_records_and_leaves_no_model(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(pretrain_step, "_SECONDS_PER_PIECE", 0.0)
    monkeypatch.setattr(
        pretrain_step, "_prepare_in_own_process", pretrain_step._prepare
    )
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
    pretrain_step.main(
        pretrain_step.BenchmarkConfig(pretraining=config, busy_limit=1.0)
    )
    report = json.loads(capsys.readouterr().out)
    assert report["batch_size"] == 8
    assert report["cores"] > 0 and report["tensorflow"]
    assert report["other_load"]["repeated"] == 0
    assert report["page_faults_per_update"]["median"] >= 0
    assert report["seconds_to_first_update"] > 0
    assert (tmp_path / "pretrain_tfrecords/manifest.json").exists()
    assert not (tmp_path / "models" / pretrain_step._MODEL_NAME).exists()


def test_disturbed_pieces_do_not_count(monkeypatch):
    monkeypatch.setattr(pretrain_step, "_SECONDS_PER_PIECE", 0.0)
    shares = itertools.cycle([0.0, 0.5, 0.0])

    class Load:
        is_read = False

        def share(self):
            assert not self.is_read  # each piece has a load of its own
            self.is_read = True
            return next(shares)

    monkeypatch.setattr(machine, "OtherLoad", Load)
    monkeypatch.setattr(machine, "_SAMPLE_SECONDS", 0.0)
    snapshots = _meter_snapshots(monkeypatch)
    assert (
        sum(snapshot.is_counted for snapshot in snapshots)
        == pretrain_step._NUM_PIECES
    )
    assert not any(snapshot.is_counted for snapshot in snapshots[:3])
    assert len(snapshots) > 3 + pretrain_step._NUM_PIECES


def test_a_piece_takes_at_least_four_seconds(monkeypatch):
    clock = itertools.count(0.0, 1.5)
    timer = types.SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(pretrain_step, "time", timer)
    quiet = types.SimpleNamespace(share=lambda: 0.0)
    monkeypatch.setattr(machine, "OtherLoad", lambda: quiet)
    monkeypatch.setattr(machine, "_SAMPLE_SECONDS", 0.0)
    steps = [x.step for x in _meter_snapshots(monkeypatch)]
    assert steps == [1, 2, 3, *range(6, 27, 3)]  # warm, then pieces of 4.5 s


def _meter_snapshots(monkeypatch):
    """Returns what the meter records of a loop without a model."""
    model = types.SimpleNamespace(
        stop_training=False, vocabulary=types.SimpleNamespace(size=60)
    )

    def run(config, callbacks):
        (meter,) = callbacks
        meter.set_model(model)
        for step in range(1, 100):
            meter.on_train_batch_end(step)
            if model.stop_training:
                return

    monkeypatch.setattr(pretraining_run, "run", run)
    quiet = machine.QuietMachine(0.05)
    return pretrain_step._train(tiny.config(), quiet)[0]
