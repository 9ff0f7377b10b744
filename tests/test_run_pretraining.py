"""The `run_pretraining` command: whole runs in processes of their own."""

import json
import random
import signal
import subprocess
import sys

import numpy as np
import pretraining_command as command
import pytest
import tiny
from launch_local import free_ports

from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import run as pretraining_run
from electra_tf.util.errors import UserError
from electra_tf.util.flags import parse_flags


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A data directory with a vocabulary, records and a whole run."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "corpus.txt").write_text(command.text())
    whole = ("--keep_checkpoint_max=0", "--do_eval", "--do_export")
    command.run(directory, "uninterrupted", *whole)
    return directory


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
    assert results["global_step"] == command.NUM_STEPS
    log = command.log(data_dir, "uninterrupted")
    cost = {record["step"]: record["training_flops"] for record in log}
    total = results["training_flops"]
    assert total == cost[command.NUM_STEPS] == command.NUM_STEPS * cost[1] > 0
    for network in ("discriminator", "generator"):
        for kind in ("text", "ids"):
            path = model_dir / "saved_model" / network / kind / "1"
            assert (path / "saved_model.pb").exists()
    config = json.loads((model_dir / "config.json").read_text())
    assert config["training"]["num_train_steps"] == command.NUM_STEPS
    # The first step, ends of blocks, checkpoints and milestones.
    assert [*cost] == [1, 2, 4, 5, 8, 10, 15, 20, 25, 30]


@pytest.mark.slow
def test_a_run_that_was_killed_and_stopped_ends_with_the_same_bits(data_dir):
    process = command.start(data_dir, "stopped")
    command.wait_for_step(
        process, data_dir, "stopped", random.Random(0).randint(5, 9)
    )
    process.kill()
    process.communicate()
    process = command.start(data_dir, "stopped")
    command.wait_for_step(process, data_dir, "stopped", 15)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 42, output
    assert "is saved" in output
    command.run(data_dir, "stopped")
    names = ("stopped", "uninterrupted")
    tiny.assert_same(*(command.tensors(data_dir, name) for name in names))
    found, expected = (command.log(data_dir, name) for name in names)
    assert found == expected


@pytest.mark.parametrize(
    "flags",
    [
        ("--init_checkpoint={first}", "--hidden_size=32"),
        ("--init_checkpoint={first}", "--num_train_steps=5"),
        ("--model_name=uninterrupted", "--mask_prob=0.2"),
    ],
)
def test_a_start_with_incompatible_settings_is_refused(data_dir, flags):
    first = data_dir / "models/uninterrupted"
    flags = [flag.format(first=first) for flag in flags]
    flags = command.flags_of(data_dir, "other", *flags)
    with pytest.raises(UserError):
        pretraining_run.run(parse_flags(PretrainingConfig, flags))


@pytest.mark.slow
def test_a_directory_in_use_is_refused(data_dir):
    process = command.start(data_dir, "busy", "--num_train_steps=100000")
    command.wait_for_step(process, data_dir, "busy", 1)
    command.run(data_dir, "busy", "--num_train_steps=100000", code=3)
    process.kill()
    process.communicate()


def _run_workers(data_dir, flags, codes, stop_after=None):
    """Runs a worker for each list of flags; may stop the last after a step."""
    ports = free_ports(len(flags))
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    processes = [
        command.start(
            data_dir,
            "workers",
            "--strategy=multi_worker",
            *flags[i],
            TF_CONFIG=json.dumps(
                {"cluster": cluster, "task": {"type": "worker", "index": i}}
            ),
        )
        for i in range(len(flags))
    ]
    if stop_after is not None:
        command.wait_for_step(processes[-1], data_dir, "workers", stop_after)
        processes[-1].send_signal(signal.SIGTERM)
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == codes, outputs
    return outputs


_TWO_REPLICAS = """
import sys, tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2)
sys.argv[0] = "run_pretraining"
from electra_tf import run_pretraining
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util.flags import run_command
run_command(run_pretraining.main, PretrainingConfig)
"""


_OTHER_FLAGS = ["--learning_rate=0.1", "--train_batch_size=16"]


@pytest.mark.slow
def test_two_workers_end_with_the_bits_of_two_local_replicas(data_dir):
    for error in _run_workers(data_dir, [[], _OTHER_FLAGS], [2, 2]):
        assert "learning_rate" in error and "train_batch_size" in error
    stopped = _run_workers(data_dir, [[], []], [42, 42], stop_after=15)
    steps = Checkpoints(data_dir / "models/workers", {}).steps()
    for output in stopped:
        assert f"the checkpoint of step {steps[-1]} is saved" in output
    assert 15 <= steps[-1] < command.NUM_STEPS
    _run_workers(data_dir, [["--do_eval"]] * 2, [0, 0])
    flags = command.flags_of(
        data_dir, "replicas", "--strategy=mirrored", "--do_eval"
    )
    subprocess.run(
        [sys.executable, "-c", _TWO_REPLICAS, *flags],
        env=command.environment(),
        cwd=data_dir,
        check=True,
        timeout=300,
    )
    tiny.assert_same(
        command.tensors(data_dir, "workers"),
        command.tensors(data_dir, "replicas"),
    )
    worker_results = _evaluated(data_dir, "workers")
    assert worker_results == _evaluated(data_dir, "replicas")
    command.run(data_dir, "workers", "--do_train=false", "--do_eval")
    assert _evaluated(data_dir, "workers") == pytest.approx(worker_results)


def _evaluated(data_dir, model_name):
    results = data_dir / "models" / model_name / "results"
    return json.loads((results / "pretraining_eval.json").read_text())
