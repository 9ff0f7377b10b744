"""The `run_pretraining` command in processes of its own, with a small run."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import run_files
from launch_local import free_ports

NUM_STEPS = 30
FLAGS = [
    "--vocab_size=300",
    "--max_seq_length=32",
    "--held_out_fraction=0.1",
    "--hidden_size=16",
    "--num_hidden_layers=1",
    "--num_attention_heads=2",
    "--embedding_size=8",
    "--generator_hidden_size=0.5",
    "--train_batch_size=8",
    "--eval_batch_size=8",
    f"--num_train_steps={NUM_STEPS}",
    "--num_warmup_steps=10",
    "--iterations_per_loop=5",
    "--save_checkpoints_steps=10",
    "--do_eval=false",
    "--do_export=false",
]
_ROOT = pathlib.Path(__file__).parent.parent


def text(num_documents=120):
    """Returns documents of made-up sentences, the same in every call."""
    rng = random.Random(0)
    words = [
        "".join(rng.choices("abcdefgh", k=rng.randint(2, 7))) for _ in "x" * 200
    ]

    def sentence():
        return " ".join(rng.choices(words, k=rng.randint(4, 14))) + "."

    documents = (
        "\n".join(sentence() for _ in range(rng.randint(2, 9)))
        for _ in range(num_documents)
    )
    return "\n\n".join(documents) + "\n"


def flags_of(data_dir, model_name, *flags):
    """Returns the flags of a run on `corpus.txt` of its data directory."""
    return [
        f"--data_dir={data_dir}",
        f"--model_name={model_name}",
        f"--corpus={data_dir}/corpus.txt",
        *FLAGS,
        *flags,
    ]


def words_of(data_dir, model_name, *flags):
    """Returns the words of the command that starts a run."""
    return [
        sys.executable,
        "-m",
        "electra_tf.run_pretraining",
        *flags_of(data_dir, model_name, *flags),
    ]


def environment(**extra):
    """Returns the environment of a command, with further variables."""
    return {**os.environ, "PYTHONPATH": str(_ROOT), **extra}


def start(data_dir, model_name, *flags, **extra):
    """Returns the process of a run, with further variables of environment."""
    return subprocess.Popen(
        words_of(data_dir, model_name, *flags),
        env=environment(**extra),
        cwd=data_dir,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(data_dir, model_name, *flags, code=0):
    """Returns the output of a run that ends with an exit code."""
    process = start(data_dir, model_name, *flags)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == code, output
    return output


def run_workers(data_dir, flags, codes, *, name="workers", stop_after=None):
    """Runs a worker for each list of flags; may stop the last after a step."""
    ports = free_ports(len(flags))
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    processes = [
        start(
            data_dir,
            name,
            "--strategy=multi_worker",
            *flags[i],
            TF_CONFIG=json.dumps(
                {"cluster": cluster, "task": {"type": "worker", "index": i}}
            ),
        )
        for i in range(len(flags))
    ]
    if stop_after is not None:
        wait_for_step(processes[-1], data_dir, name, stop_after)
        processes[-1].send_signal(signal.SIGTERM)
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == codes, outputs
    return outputs


def tensors(data_dir, model_name):
    """Returns name -> array of the last checkpoint of a run."""
    return run_files.tensors(data_dir / "models" / model_name, NUM_STEPS)


def log(data_dir, model_name):
    """Returns the logged metrics of a run."""
    return run_files.log(data_dir / "models" / model_name)


def wait_for_step(process, data_dir, model_name, step):
    """Waits until a run has logged a step, or has ended."""
    while process.poll() is None:
        records = log(data_dir, model_name)
        if records and records[-1]["step"] >= step:
            return
        time.sleep(0.02)
