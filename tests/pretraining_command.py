"""Small runs of pre-training, in this process and in others."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import keras
import tensorflow as tf
import tiny

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import run as pretraining_run
from electra_tf.util.flags import parse_flags

NUM_STEPS = 30
FLAGS = (
    "--vocab_size=300 --max_seq_length=32 --held_out_fraction=0.1 "
    "--hidden_size=16 --num_hidden_layers=1 --num_attention_heads=2 "
    "--embedding_size=8 --generator_hidden_size=0.5 --train_batch_size=8 "
    f"--eval_batch_size=8 --num_train_steps={NUM_STEPS} --num_warmup_steps=10 "
    "--iterations_per_loop=5 --save_checkpoints_steps=10 --nodo_eval "
    "--nodo_export"
).split()
_ROOT = pathlib.Path(__file__).parent.parent


def text(num_documents=120):
    """Returns documents of made-up sentences, the same in every call."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefgh", k=5)) for _ in range(200)]
    documents = [
        "\n".join(
            " ".join(rng.choices(words, k=rng.randint(4, 14))) + "."
            for _ in range(rng.randint(2, 9))
        )
        for _ in range(num_documents)
    ]
    return "\n\n".join(documents) + "\n"


def flags_of(data_dir, model_name, *flags):
    """Returns the flags of a run on `corpus.txt` of its data directory."""
    run = (f"--data_dir={data_dir}", f"--model_name={model_name}")
    return [*run, f"--corpus={data_dir}/corpus.txt", *FLAGS, *flags]


def words_of(data_dir, model_name, *flags):
    flags = flags_of(data_dir, model_name, *flags)
    return [sys.executable, "-m", "electra_tf.run_pretraining", *flags]


def environment():
    return {**os.environ, "PYTHONPATH": str(_ROOT)}


def start(data_dir, model_name, *flags):
    return subprocess.Popen(
        words_of(data_dir, model_name, *flags),
        env=environment(),
        cwd=data_dir,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(data_dir, model_name, *flags):
    """Runs the command in a process of its own."""
    process = start(data_dir, model_name, *flags)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output


def main(data_dir, model_name, *flags):
    """Runs the command in this process."""
    flags = flags_of(data_dir, model_name, *flags)
    pretraining_run.run(parse_flags(PretrainingConfig, flags))


def wait_for_step(process, data_dir, model_name, step):
    """Waits until a run has logged a step, or has ended."""
    while process.poll() is None:
        records = log(data_dir, model_name)
        if records and records[-1]["step"] >= step:
            return
        time.sleep(0.02)


class Stop(keras.callbacks.Callback):
    """Sends SIGTERM at a step."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def on_train_batch_end(self, batch, logs=None):
        if batch >= self.step:
            os.kill(os.getpid(), signal.SIGTERM)


def train(data_dir, name, callbacks=(), **leaves):
    """Trains one small network in this process, on `corpus.txt`."""
    defaults = {
        "model_name": name,
        "corpus": (str(data_dir / "corpus.txt"),),
        "objective": "mlm",
        "num_hidden_layers": 1,
        "max_seq_length": 32,
        "hidden_dropout_prob": 0.1,
        "do_eval": False,
        "do_export": False,
    }
    config = tiny.config(data_dir, **defaults | leaves)
    pretraining_run.run(config, callbacks)


def tensors(data_dir, model_name, step=NUM_STEPS):
    model_dir = data_dir / "models" / model_name
    reader = tf.train.load_checkpoint(str(model_dir / f"model.ckpt-{step}"))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


def log(data_dir, model_name):
    """Returns the logged metrics of a run; checks and removes its speeds."""
    path = data_dir / "models" / model_name / "metrics.jsonl"
    lines = path.read_text().splitlines(True) if path.exists() else []
    records = [json.loads(line) for line in lines if line[-1] == "\n"]
    for record in records:
        for kind in ("sequences_per_second", "tokens_per_second"):
            assert record.pop(kind) > 0
    return records


def assert_same_end(data_dir, name, other, step=NUM_STEPS):
    """Compares checkpoints, bit for bit, and logs of two runs."""
    tiny.assert_same(*(tensors(data_dir, x, step) for x in (name, other)))
    assert log(data_dir, name) == log(data_dir, other)
