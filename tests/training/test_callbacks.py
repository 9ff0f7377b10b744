import io
import json

from electra_tf.config.corpus import Phase
from electra_tf.training import callbacks

LOGS = {"loss": 12.3456, "disc_loss": 0.25, "steps_per_second": 10.0}


def test_the_line_shows_step_speed_losses_and_time_left():
    names = {"loss": "loss", "disc_loss": "disc"}
    phases = (Phase(0, 2000, 32, 128, 128),)
    bar = callbacks.ProgressBar(phases, short_names=names)
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
    phases = (Phase(0, 90, 32, 128, 128), Phase(90, 100, 16, 512, 512))
    for first_step, steps in ((0, (80, 90, 91)), (90, (91,))):
        log = callbacks.JsonLog(path, first_step=first_step, phases=phases)
        log.on_train_begin()
        for step in steps:
            log.on_epoch_end(step, dict(LOGS))
        with path.open("a") as file:
            file.write('{"step": 9' * (first_step == 0))  # cut off by a kill
    of_phases = {
        "max_seq_length": (128, 128, 512),
        "sequences_per_second": (320.0, 320.0, 160.0),
        "tokens_per_second": (40_960.0, 40_960.0, 81_920.0),
    }
    expected = {"step": (80, 90, 91), "loss": (12.3456,) * 3} | of_phases
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for name, values in expected.items():
        assert tuple(record[name] for record in records) == values
