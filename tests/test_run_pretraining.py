"""The `run_pretraining` command: whole runs in processes of their own."""

import json
import random
import signal

import numpy as np
import pretraining_command as command
import pytest

from electra_tf.util import files
from electra_tf.util.errors import DirectoryInUseError, UserError


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A data directory with a vocabulary, records and a whole run."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "corpus.txt").write_text(command.text())
    whole = ("--keep_checkpoint_max=0", "--do_eval")
    command.main(directory, "uninterrupted", *whole)
    return directory


def test_a_run_writes_results_log_and_config(data_dir):
    model_dir = data_dir / "models" / "uninterrupted"
    path = model_dir / "results/pretraining_eval.json"
    results = json.loads(path.read_text())
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
    command.run(data_dir, "stopped", "--do_export")
    exported = (data_dir / "models/stopped/saved_model").glob("*/*/1")
    assert len([*exported]) == 4
    command.assert_same_end(data_dir, "stopped", "uninterrupted")


def test_a_run_in_use_or_with_other_settings_is_refused(data_dir):
    with pytest.raises(UserError, match="mask_prob"):
        command.main(data_dir, "uninterrupted", "--mask_prob=0.2")
    with files.lock_directory(data_dir / "models/uninterrupted", "lock"):
        with pytest.raises(DirectoryInUseError):
            command.main(data_dir, "uninterrupted")
