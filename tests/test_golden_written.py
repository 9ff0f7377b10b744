"""Files that an earlier version wrote still open, and mean the same.

They are in tests/golden/written: `.keras` files, and a pre-training run stopped
after one update of two. `test_nets` reads the trials of fine-tuning.
"""

import json
import pathlib
import shutil

import keras
import numpy as np
import pretraining_command
import pytest

import electra_tf
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util.flags import check_same_experiment, load_config

WRITTEN = pathlib.Path(__file__).parent / "golden" / "written"
ANSWERS = json.loads((WRITTEN / "answers.json").read_text("utf-8"))
TEXTS = ["the good film is very", "it was a bad plot"]


@pytest.mark.parametrize("name", ["classifier", "tagger"])
def test_keras_files_answer_as_they_did(name):
    assert electra_tf.ElectraClassifier and electra_tf.ElectraTagger
    model = keras.saving.load_model(WRITTEN / f"{name}.keras")
    inputs = [text.split() for text in TEXTS] if name == "tagger" else TEXTS
    found = model.predict(inputs, verbose=0)
    for row, expected in zip(found, ANSWERS[name], strict=True):
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


def test_the_configuration_of_a_run_is_read_as_it_was_written():
    path = WRITTEN / "run" / "models" / "run" / "config.json"
    stored = json.loads(path.read_text("utf-8"))
    config = load_config(path, PretrainingConfig)
    assert config.training.precision == stored["training"]["precision"]
    check_same_experiment(path, config)


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_as_it_did(tmp_path):
    shutil.copytree(WRITTEN / "run", tmp_path, dirs_exist_ok=True)
    log = tmp_path / "models" / "run" / "metrics.jsonl"
    *_, expected = map(json.loads, log.read_text("utf-8").splitlines())
    for path in (
        log.with_name("config.json"),
        tmp_path / "pretrain_tfrecords" / "manifest.json",
    ):
        text = path.read_text("utf-8").replace("/data", str(tmp_path))
        path.write_text(text, "utf-8")
    flags = ["--num_train_steps=2", "--num_hidden_layers=2"]
    pretraining_command.run(tmp_path, "run", *flags, "--vocab_size=150")
    *_, found = map(json.loads, log.read_text("utf-8").splitlines())
    assert found["step"] == expected["step"] == 2
    for name in ("loss", "disc_loss", "masked_lm_loss", "gradient_norm"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5)
