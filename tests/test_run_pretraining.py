"""The `run_pretraining` command: whole runs in processes of their own."""

import itertools
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import run_files

from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import pretraining_run
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

ROOT = pathlib.Path(__file__).parent.parent
NUM_STEPS = 30
FLAGS = [
    "--vocab_size=300",
    "--max_seq_length=32",
    "--held_out_fraction=0.1",
    "--hidden_size=16",
    "--num_hidden_layers=2",
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


def _text(num_documents=120):
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


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A data directory with a vocabulary, records and a whole run."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "corpus.txt").write_text(_text())
    whole = ("--keep_checkpoint_max=0", "--do_eval", "--do_export")
    run(directory, "uninterrupted", *whole)
    return directory


def _command(data_dir, model_name, *flags):
    return [
        sys.executable,
        "-m",
        "electra_tf.run_pretraining",
        f"--data_dir={data_dir}",
        f"--model_name={model_name}",
        f"--corpus={data_dir}/corpus.txt",
        *FLAGS,
        *flags,
    ]


def _parsed(data_dir, model_name, *flags):
    """Returns the configuration of a run, to start it in this process."""
    _, _, _, *words = _command(data_dir, model_name, *flags)
    return config_flags.parse(PretrainingConfig, words)


def _environment(**extra):
    return {**os.environ, "PYTHONPATH": str(ROOT), **extra}


def _start(data_dir, model_name, *flags, **extra):
    return subprocess.Popen(
        _command(data_dir, model_name, *flags),
        env=_environment(**extra),
        cwd=data_dir,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(data_dir, model_name, *flags, code=0):
    process = _start(data_dir, model_name, *flags)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == code, output
    return output


def _tensors(data_dir, model_name):
    return run_files.tensors(data_dir / "models" / model_name, NUM_STEPS)


def _log(data_dir, model_name):
    return run_files.log(data_dir / "models" / model_name)


def _assert_equal_bits(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


def _wait_for_step(process, data_dir, model_name, step):
    """Waits until a run has logged a step, or has ended."""
    while process.poll() is None:
        log = _log(data_dir, model_name)
        if log and log[-1]["step"] >= step:
            return
        time.sleep(0.02)


@pytest.fixture(scope="module")
def uninterrupted(data_dir):
    return _tensors(data_dir, "uninterrupted"), _log(data_dir, "uninterrupted")


def test_a_run_writes_results_log_models_and_config(data_dir):
    model_dir = data_dir / "models" / "uninterrupted"
    results = json.loads(
        (model_dir / "results" / "pretraining_eval.json").read_text()
    )
    for name in (
        "disc_accuracy disc_auc disc_loss disc_precision disc_recall loss "
        "masked_lm_accuracy masked_lm_loss sampled_masked_lm_accuracy"
    ).split():
        assert np.isfinite(results[name])
    assert results["global_step"] == NUM_STEPS
    log = _log(data_dir, "uninterrupted")
    cost = {record["step"]: record["training_flops"] for record in log}
    total = results["training_flops"]
    assert total == cost[NUM_STEPS] == NUM_STEPS * cost[1] > 0
    for network in ("discriminator", "generator"):
        for kind in ("text", "ids"):
            path = model_dir / "saved_model" / network / kind / "1"
            assert (path / "saved_model.pb").exists()
    config = json.loads((model_dir / "config.json").read_text())
    assert config["training"]["num_train_steps"] == NUM_STEPS
    # The first step, ends of blocks, checkpoints and milestones.
    assert [*cost] == [1, 2, 4, 5, 8, 10, 15, 20, 25, 30]


def test_the_files_that_the_readme_lists_are_written(data_dir):
    readme = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
    block = readme.split("## What a run writes")[1].split("```")[1]
    listed = [x.split()[0] for x in block.splitlines() if x.startswith("  ")]
    assert len(listed) == 6
    for name in listed:
        choices = [part.split(",") for part in re.split("[{}]", name)]
        for path in map("".join, itertools.product(*choices)):
            assert [*data_dir.glob(f"models/uninterrupted/{path}")], path


def test_a_run_leaves_nothing_outside_its_data_directory(data_dir):
    names = {path.name for path in data_dir.iterdir()}
    assert names == {"corpus.txt", "vocab.txt", "pretrain_tfrecords", "models"}


def test_a_checkpoint_holds_weights_slots_and_the_step(uninterrupted):
    tensors, _ = uninterrupted
    weights = [name for name in tensors if "/adam_" not in name]
    weights.remove("global_step")
    slots = {
        f"{name}/{slot}" for name in weights for slot in ("adam_m", "adam_v")
    }
    assert tensors.keys() == {"global_step", *weights, *slots}
    assert tensors["global_step"] == NUM_STEPS
    assert "electra/embeddings/word_embeddings" in weights


@pytest.mark.slow
def test_a_run_that_was_killed_and_stopped_ends_with_the_same_bits(
    data_dir, uninterrupted
):
    process = _start(data_dir, "stopped")
    _wait_for_step(process, data_dir, "stopped", random.Random(0).randint(5, 9))
    process.kill()
    process.communicate()
    process = _start(data_dir, "stopped")
    _wait_for_step(process, data_dir, "stopped", 15)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 42, output
    assert "is saved" in output
    run(data_dir, "stopped")
    _assert_equal_bits(_tensors(data_dir, "stopped"), uninterrupted[0])
    assert _log(data_dir, "stopped") == uninterrupted[1]


@pytest.mark.slow
def test_a_run_goes_on_from_the_checkpoint_of_another(data_dir, uninterrupted):
    first = data_dir / "models/uninterrupted/model.ckpt-10"
    output = run(data_dir, "heir", f"--init_checkpoint={first}")
    assert "to continue from step 10" in output
    _assert_equal_bits(_tensors(data_dir, "heir"), uninterrupted[0])


@pytest.mark.promise(
    "The configuration changed between two runs: the second ends with exit "
    "code 2 and lists each field with both values"
)
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ("--init_checkpoint={first}", "--hidden_size=32"),
            ("Give --hidden_size=16 --intermediate_size=64",),
        ),
        (
            ("--init_checkpoint={first}", "--num_train_steps=5"),
            ("more than the step", "--reset_step"),
        ),
        (
            ("--model_name=uninterrupted", "--mask_prob=0.2", "--seed=7"),
            ("seed: 0 stored", "mask_prob: 0.15 stored, 0.2 now"),
        ),
    ],
)
def test_a_start_with_incompatible_settings_is_refused(data_dir, flags, words):
    first = data_dir / "models/uninterrupted"
    flags = [flag.format(first=first) for flag in flags]
    with pytest.raises(UserError) as error:
        pretraining_run.run(_parsed(data_dir, "other", *flags))
    for word in words:
        assert word in str(error.value)


@pytest.mark.slow
def test_evaluation_gives_the_same_numbers_every_time(data_dir, uninterrupted):
    path = data_dir / "models/uninterrupted/results/pretraining_eval.json"
    results = []
    for size in (8, 8, 5):
        run(
            data_dir,
            "uninterrupted",
            "--do_train=false",
            "--do_eval",
            f"--eval_batch_size={size}",
        )
        results.append(json.loads(path.read_text()))
    assert results[0] == results[1]
    for name, value in results[0].items():
        assert results[2][name] == pytest.approx(value, rel=1e-4), name


@pytest.mark.promise(
    "two trainings in one directory: the second ends with exit code 3 and "
    "names the process of the first"
)
@pytest.mark.slow
def test_a_directory_in_use_is_refused(data_dir):
    process = _start(data_dir, "busy", "--num_train_steps=100000")
    _wait_for_step(process, data_dir, "busy", 1)
    output = run(data_dir, "busy", "--num_train_steps=100000", code=3)
    process.kill()
    process.communicate()
    assert str(process.pid) in output


TOWERS = ("cloze_accuracy", "disc_auc", "P(replaced)", "Exported")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "flags", "words"),
    [
        ("mlm", ["--objective=mlm"], ("masked_lm_accuracy", "Exported")),
        (
            "unigram",
            ["--masking_strategy=unigram", "--mask_prob_end=0.4"],
            ("disc_auc", "P(replaced)"),
        ),
        ("electric", ["--objective=electric"], TOWERS),
        ("two_tower", ["--generator_type=two_tower"], TOWERS),
        (
            "float16",
            ["--precision=float16", "--recompute", "--deterministic"],
            ("disc_auc", "Exported"),
        ),
    ],
)
def test_training_variants_run_from_end_to_end_and_resume(
    data_dir, name, flags, words
):
    flags = [*flags, "--do_eval", "--do_export", "--num_samples=2"]
    run(data_dir, name, *flags, "--num_train_steps=5")
    output = run(data_dir, name, *flags, "--num_train_steps=5")
    assert "Restored the checkpoint of step 5" in output
    for word in words:
        assert word in output
    assert (name == "mlm") == ("disc_auc" not in output)
    start = f"--init_checkpoint={data_dir}/models/{name}"
    output = run(
        data_dir, f"{name}_again", flags[0], start, "--num_train_steps=8"
    )
    assert "slots of Adam, to continue from step 5" in output


def _free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for s in sockets:
        s.bind(("localhost", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


_TWO_REPLICAS = """
import sys, tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2)
sys.argv[0] = "run_pretraining"
from electra_tf import run_pretraining
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util import config_flags
config_flags.run(run_pretraining.main, PretrainingConfig)
"""


_OTHER_FLAGS = ["--learning_rate=0.1", "--train_batch_size=16"]


def _run_workers(data_dir, flags, codes, *, name="workers", stop_after=None):
    """Runs a worker for each list of flags; may stop the last after a step."""
    ports = _free_ports(len(flags))
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    processes = [
        _start(
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
        _wait_for_step(processes[-1], data_dir, name, stop_after)
        processes[-1].send_signal(signal.SIGTERM)
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == codes, outputs
    return outputs


@pytest.mark.slow
def test_two_workers_end_with_the_bits_of_two_local_replicas(data_dir):
    for i, error in enumerate(
        _run_workers(data_dir, [[], _OTHER_FLAGS], [2, 2])
    ):
        assert f"this is worker {i}. Received: worker 1: " in error
        for name in ("learning_rate", "train_batch_size"):
            assert f"another {name} (here " in error
    stopped = _run_workers(data_dir, [[], []], [42, 42], stop_after=15)
    steps = Checkpoints(data_dir / "models/workers", {}).steps()
    for output in stopped:
        assert f"the checkpoint of step {steps[-1]} is saved" in output
    assert 15 <= steps[-1] < NUM_STEPS
    _run_workers(data_dir, [["--do_eval"]] * 2, [0, 0])
    command = _command(data_dir, "replicas", "--strategy=mirrored", "--do_eval")
    command[1:3] = ["-c", _TWO_REPLICAS]
    subprocess.run(
        command, env=_environment(), cwd=data_dir, check=True, timeout=300
    )
    _assert_equal_bits(
        _tensors(data_dir, "workers"), _tensors(data_dir, "replicas")
    )
    worker_results = _evaluated(data_dir, "workers")
    assert worker_results == _evaluated(data_dir, "replicas")
    run(data_dir, "workers", "--do_train=false", "--do_eval")
    assert _evaluated(data_dir, "workers") == pytest.approx(worker_results)


def _evaluated(data_dir, model_name):
    results = data_dir / "models" / model_name / "results"
    return json.loads((results / "pretraining_eval.json").read_text())


@pytest.mark.faults
def test_a_run_of_two_workers_goes_on_with_one_and_with_two_again(data_dir):
    flags = ["--hidden_dropout_prob=0", "--attention_probs_dropout_prob=0"]
    run(data_dir, "alone", *flags)
    both = {"data_dir": data_dir, "flags": [flags] * 2, "name": "elastic"}
    _run_workers(**both, codes=[42, 42], stop_after=5)
    process = _start(data_dir, "elastic", *flags)
    _wait_for_step(process, data_dir, "elastic", 15)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 42, output
    _run_workers(**both, codes=[0, 0])
    logs = (_log(data_dir, name) for name in ("elastic", "alone"))
    for record, other in zip(*logs, strict=True):
        for name in ("step", "loss", "masked_lm_loss", "disc_loss"):
            assert record[name] == pytest.approx(other[name], rel=1e-6)
