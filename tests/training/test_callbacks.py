import io
import json

from electra_tf.config.corpus import Phase
from electra_tf.training import callbacks

LOGS = {"loss": 12.3456, "disc_loss": 0.25, "steps_per_second": 10.0}
TWO_PHASES = (Phase(0, 90, 32, 128, 128), Phase(90, 100, 16, 512, 512))


def one_phase(num_steps, batch_size):
    return (Phase(0, num_steps, batch_size, 128, 128),)


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_line_shows_step_speed_losses_and_time_left():
    names = {"loss": "loss", "disc_loss": "disc"}
    bar = callbacks.ProgressBar(one_phase(2000, 32), short_names=names)
    bar.stream = io.StringIO()
    bar.on_train_batch_end(999, LOGS)
    bar.stream.isatty = lambda: True
    bar.on_train_batch_end(1000, LOGS)
    *_, line = bar.stream.getvalue().split("\x1b[K")
    assert line == (
        "step 1,000/2,000  50.0%  320.0 sequences/s  loss 12.346  disc 0.250  "
        "ETA 0:01:40"
    )


def test_the_log_has_each_step_once_after_a_resume(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for first_step, steps in ((0, (10, 20, 30)), (20, (30,))):
        phases = one_phase(30, 4)
        log = callbacks.JsonLog(path, first_step=first_step, phases=phases)
        log.on_train_begin()
        for step in steps:
            log.on_epoch_end(step, dict(LOGS))
        with path.open("a") as file:
            file.write('{"step": 4' * (first_step == 0))  # cut off by a kill
    assert [record["step"] for record in records(path)] == [10, 20, 30]
    assert records(path)[-1]["loss"] == 12.3456


def test_the_log_tells_the_length_and_speed_of_each_phase(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = callbacks.JsonLog(path, first_step=0, phases=TWO_PHASES)
    for step in (90, 91):
        log.on_epoch_end(step, dict(LOGS))
    names = ("max_seq_length", "sequences_per_second", "tokens_per_second")
    assert [tuple(record[n] for n in names) for record in records(path)] == [
        (128, 320.0, 40_960.0),
        (512, 160.0, 81_920.0),
    ]
