import io
import json
import types

import keras
import pytest
import tensorflow as tf

from electra_tf.config.corpus import Phase
from electra_tf.training import callbacks

LOGS = {"loss": 12.3456, "disc_loss": 0.25, "steps_per_second": 10.0}
TWO_PHASES = (Phase(0, 90, 32, 128, 128), Phase(90, 100, 16, 512, 512))


def one_phase(num_steps, batch_size):
    return (Phase(0, num_steps, batch_size, 128, 128),)


def progress_bar(phases, *, is_terminal=False, **shown):
    """Returns a progress bar and the stream that it writes to."""
    bar = callbacks.ProgressBar(phases, short_names=shown)
    bar.stream = io.StringIO()
    bar.stream.isatty = lambda: is_terminal
    return bar, bar.stream


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_line_shows_step_speed_losses_and_time_left():
    bar, stream = progress_bar(
        one_phase(2000, 32), loss="loss", disc_loss="disc"
    )
    bar.on_train_batch_end(999, LOGS)
    assert bar.line(1000, LOGS).endswith("disc 0.250")
    stream.isatty = lambda: True
    bar.on_train_batch_end(1000, LOGS)
    *_, line = stream.getvalue().split("\x1b[K")
    assert line == (
        "step 1,000/2,000  50.0%  320.0 sequences/s  loss 12.346  disc 0.250  "
        "ETA 0:01:40"
    )


@pytest.mark.parametrize(("step", "num_lines"), [(0, 1), (7, 1), (50, 0)])
def test_a_line_announces_the_tracing_of_the_first_update(
    step, num_lines, capsys
):
    bar, _ = progress_bar(one_phase(50, 32))
    optimizer = types.SimpleNamespace(iterations=keras.Variable(step))
    bar.set_model(types.SimpleNamespace(optimizer=optimizer))
    bar.on_train_begin()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == num_lines
    assert all(f"from step {step}." in line for line in lines)


def test_the_speed_is_smoothed_from_the_third_block_on():
    bar, _ = progress_bar(one_phase(1000, 1))
    for step, speed in enumerate((1.0, 10.0, 20.0, 2.0), 1):
        bar.on_train_batch_end(step, LOGS | {"steps_per_second": speed})
    expected = 0.8 * (0.8 * 10 + 0.2 * 20) + 0.2 * 2
    assert f" {expected:.1f} sequences/s" in bar.line(4, LOGS)


def test_the_time_left_does_not_count_tracing():
    bar, _ = progress_bar(one_phase(1000, 32))
    bar.on_train_batch_end(1, LOGS | {"steps_per_second": 0.05})
    assert "ETA" not in bar.line(1, LOGS)
    bar.on_train_batch_end(100, LOGS)
    left = (1000 - 100) / LOGS["steps_per_second"]
    assert bar.line(100, LOGS).endswith(f"ETA 0:01:{left - 60:.0f}")


def test_training_flops_reach_later_callbacks(path):
    phases = one_phase(2000, 32)
    bar, stream = progress_bar(phases)
    runner = keras.callbacks.CallbackList(
        [
            callbacks.TrainingFlops(lambda step: step * 10**15),
            callbacks.JsonLog(path, first_step=0, phases=phases),
            bar,
        ]
    )
    runner.on_train_batch_end(500, dict(LOGS))
    runner.on_epoch_end(1000, dict(LOGS))
    assert "5.0e+17 FLOPs" in stream.getvalue()
    assert records(path)[0]["training_flops"] == 10**18


def test_lines_are_rare_away_from_a_terminal_but_the_last_comes():
    bar, stream = progress_bar(one_phase(50, 32))
    for step in range(1, 51):
        bar.on_train_batch_end(step, LOGS)
    lines = stream.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["1/50", "50/50"]


def test_a_terminal_gets_one_line():
    bar, stream = progress_bar(one_phase(3, 32), is_terminal=True)
    for step in (1, 2, 3):
        bar.on_train_batch_end(step, LOGS)
    text = stream.getvalue()
    assert text.count("\r") == 3 and text.count("\n") == 1


def test_the_log_has_each_step_once_after_a_resume(path):
    log = callbacks.JsonLog(path, first_step=0, phases=one_phase(30, 4))
    log.on_train_begin()
    for step in (10, 20, 30):
        log.on_epoch_end(step, dict(LOGS))
    with path.open("a") as file:
        file.write('{"step": 4')  # cut off by a kill
    log = callbacks.JsonLog(path, first_step=20, phases=one_phase(30, 4))
    log.on_train_begin()
    log.on_epoch_end(30, dict(LOGS))
    assert [record["step"] for record in records(path)] == [10, 20, 30]
    last = records(path)[-1]
    assert last["sequences_per_second"] == 40.0
    assert last["tokens_per_second"] == 5120.0
    assert last["loss"] == 12.3456


def test_a_damaged_log_loses_only_its_damaged_lines(path, monkeypatch):
    sound = b'{"step": 1, "note": "\xff"}\n{"step": 2}\n'
    bad = b'\xff\n[1]\n{"step": null}\n{"step": 9}\n'
    bad += b'\n{"step": 1' + b"0" * 400 + b"}\n"
    path.write_bytes(sound + bad)
    log = callbacks.JsonLog(path, first_step=2, phases=one_phase(30, 4))

    def fail(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="no space"):
            log.on_train_begin()
    assert path.read_bytes() == sound + bad, "a failure leaves the old log"
    log.on_train_begin()
    assert path.read_bytes() == sound


def test_the_log_tells_the_length_and_speed_of_each_phase(path):
    log = callbacks.JsonLog(path, first_step=0, phases=TWO_PHASES)
    for step in (1, 90, 91, 100):
        log.on_epoch_end(step, dict(LOGS))
    names = ("max_seq_length", "sequences_per_second", "tokens_per_second")
    assert [tuple(record[n] for n in names) for record in records(path)] == [
        (128, 320.0, 40_960.0),
        (128, 320.0, 40_960.0),
        (512, 160.0, 81_920.0),
        (512, 160.0, 81_920.0),
    ]


def test_the_progress_bar_shows_row_length_and_time_left_of_all_phases():
    bar, stream = progress_bar(TWO_PHASES, is_terminal=True)
    bar.on_train_batch_end(79, LOGS)
    bar.on_train_batch_end(80, LOGS)
    left = (10 + 10 * 2) / 10  # updates of phase 2 have twice the tokens
    assert stream.getvalue().endswith(
        f"320.0 sequences/s of 128    ETA 0:00:0{left:.0f}"
    )
    for step in (81, 82, 91):
        bar.on_train_batch_end(step, LOGS | {"steps_per_second": step})
    assert " 1,456.0 sequences/s of 512 " in stream.getvalue()


def test_clock_counts_days():
    assert callbacks._clock(59.6) == "0:01:00"
    assert callbacks._clock(3 * 86400 + 3661) == "3 d 1:01:01"


def test_the_time_left_does_not_count_tracing_of_a_second_phase():
    bar, _ = progress_bar(TWO_PHASES)
    for step in (80, 90):
        bar.on_train_batch_end(step, LOGS)
    bar.on_train_batch_end(91, LOGS | {"steps_per_second": 0.01})
    left = 9 * 2 / 10  # updates of phase 2 have twice the tokens
    assert bar.line(91, LOGS).endswith(f"ETA 0:00:0{left:.0f}")


def test_tensorboard_takes_more_flops_than_int64(monkeypatch, tmp_path):
    written = {}
    monkeypatch.setattr(callbacks, "check_tensorboard", lambda: None)
    monkeypatch.setattr(tf.summary, "scalar", written.__setitem__)
    log = callbacks.TensorBoardLog(tmp_path)
    log.on_epoch_end(1, {"training_flops": int(6.4e19)})
    log.on_train_end()
    (value,) = written.values()
    assert isinstance(value, float) and value == 6.4e19
