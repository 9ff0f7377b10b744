"""The commands write for fixed inputs what they wrote before.

Files that version 0.1 wrote, in tests/golden/written, still open: `.keras`
files, trials of fine-tuning, and a pre-training run stopped after one update.
"""

import json

import golden_arrays
import keras
import nets
import numpy as np
import pretraining_command
import pytest

import electra_tf
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util.flags import check_same_experiment, load_config

GOLDEN = json.loads(nets.PATH.read_text("utf-8"))
ANSWERS = json.loads((nets.WRITTEN / "answers.json").read_text("utf-8"))


def _check(found, expected):
    assert golden_arrays.close(
        json.loads(json.dumps(found, default=bytes.decode)), expected
    )


@pytest.mark.parametrize("packing", nets.PACKINGS)
def test_records_are_the_same_bytes(packing):
    found = nets.records(packing)
    assert found == GOLDEN["records"][packing]


def test_scores_are_the_same():
    _check(nets.scores(), GOLDEN["scores"])


def test_saved_models_answer_the_same():
    _check(nets.run_signatures(), GOLDEN["signatures"])


@pytest.mark.parametrize("kind", nets.KINDS)
def test_predictions_are_the_same(kind):
    _check(nets.predictions(kind), GOLDEN["predictions"][kind])


def test_converted_weights_are_the_same_bytes():
    assert nets.conversions() == GOLDEN["conversions"]


@pytest.mark.parametrize("name", ["classifier", "tagger"])
def test_keras_files_answer_the_same(name):
    assert electra_tf.ElectraClassifier and electra_tf.ElectraTagger
    model = keras.saving.load_model(nets.WRITTEN / f"{name}.keras")
    texts = nets.TEXTS[:2]
    inputs = [text.split() for text in texts] if name == "tagger" else texts
    found = model.predict(inputs, verbose=0)
    for row, expected in zip(found, ANSWERS[name], strict=True):
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


def test_the_configuration_of_a_run_is_read_as_it_was_written():
    path = nets.WRITTEN / "run/models/run/config.json"
    stored = json.loads(path.read_text("utf-8"))
    config = load_config(path, PretrainingConfig)
    assert config.training.precision == stored["training"]["precision"]
    check_same_experiment(path, config)


@pytest.mark.slow
def test_a_run_goes_on_as_it_did():
    with nets.written_run() as root:
        log = root / "models/run/metrics.jsonl"
        *_, expected = map(json.loads, log.read_text("utf-8").splitlines())
        flags = ("--num_train_steps=2", "--num_hidden_layers=2")
        pretraining_command.main(root, "run", *flags, "--vocab_size=150")
        *_, found = map(json.loads, log.read_text("utf-8").splitlines())
    assert found["step"] == expected["step"] == 2
    for name in ("loss", "disc_loss", "masked_lm_loss", "gradient_norm"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5)
