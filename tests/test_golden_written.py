"""Files that an earlier version wrote still open, and mean the same.

They are in tests/golden/written: `.keras` files, a trial of fine-tuning, and a
pre-training run that was stopped after one update of two; `first` holds a run
of the first commit of version 0.1.0, with its answers.
"""

import json
import pathlib
import shutil

import keras
import numpy as np
import pretraining_command
import pytest
import tiny

import electra_tf
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import pretraining_run
from electra_tf.util import config_files
from electra_tf.util.errors import UserError

WRITTEN = pathlib.Path(__file__).parent / "golden" / "written"
ANSWERS = json.loads((WRITTEN / "answers.json").read_text("utf-8"))
TEXTS = ["the good film is very", "it was a bad plot"]


FIRST = WRITTEN / "first" / "models" / "old"


@pytest.mark.promise(
    "A checkpoint of version 0.1.0, from before most of the settings: it is "
    "read, and answers as it did"
)
def test_a_checkpoint_of_the_first_version_answers_as_it_did():
    path = WRITTEN / "first" / "answers.json"
    expected = json.loads(path.read_text("utf-8"))
    ids = np.int32(expected["input_ids"])
    inputs = {"input_ids": ids, "input_mask": np.int32(ids > 0)}
    network = electra_tf.ElectraDiscriminator.from_checkpoint(str(FIRST))
    logits = network(inputs)["logits"].numpy()
    np.testing.assert_allclose(
        np.where(ids > 0, 1 / (1 + np.exp(-logits)), 0),
        expected["probability_replaced"],
        1e-5,
    )
    network = electra_tf.ElectraGenerator.from_checkpoint(str(FIRST))
    logits = network(inputs)["logits"].numpy()[:, :3, :5]
    np.testing.assert_allclose(
        logits.reshape(2, -1), expected["generator_logits"], 1e-4, 2e-6
    )


@pytest.fixture
def first(tmp_path):
    """A directory with the run of the first version; its flags."""
    shutil.copytree(WRITTEN / "first", tmp_path, dirs_exist_ok=True)
    (tmp_path / "corpus.txt").write_text(pretraining_command.text(20))
    return tmp_path, {
        "corpus": (str(tmp_path / "corpus.txt"),),
        "vocab_size": 100,
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "embedding_size": 4,
        "max_position_embeddings": 16,
        "num_train_steps": 4,
        "do_eval": False,
        "do_export": False,
    }


@pytest.mark.promise(
    "A run of a version with other settings: it is not resumed with settings "
    "that nobody chose, but told how to go on from its checkpoint"
)
def test_a_refused_run_of_the_first_version_names_its_missing_fields(first):
    directory, flags = first
    config = tiny.config(directory, model_name="old", **flags)
    with pytest.raises(UserError) as error:
        pretraining_run.run(config)
    text = str(error.value)
    assert "packing: 'absent' stored, 'carry' now" in text
    assert f"--init_checkpoint={directory}/models/old to continue" in text


@pytest.mark.faults
def test_a_run_goes_on_from_a_checkpoint_of_the_first_version(first, capsys):
    directory, flags = first
    start = str(directory / "models" / "old")
    config = tiny.config(
        directory, model_name="new", init_checkpoint=start, **flags
    )
    pretraining_run.run(config)
    stdout = capsys.readouterr().out
    assert "48 of 48 weights, 96 slots of Adam" in stdout
    assert "to continue from step 2" in stdout


@pytest.mark.parametrize("name", ["classifier", "tagger"])
def test_keras_files_answer_as_they_did(name):
    model = keras.saving.load_model(WRITTEN / f"{name}.keras")
    inputs = [text.split() for text in TEXTS] if name == "tagger" else TEXTS
    found = model.predict(inputs, verbose=0)
    for row, expected in zip(found, ANSWERS[name], strict=True):
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


def test_a_trial_answers_as_it_did():
    answers = electra_tf.Predictor(WRITTEN / "trial")(TEXTS)
    for answer, expected in zip(answers, ANSWERS["predictor"], strict=True):
        assert answer["prediction"] == expected["prediction"]
        for label, probability in expected["probabilities"].items():
            assert answer["probabilities"][label] == pytest.approx(
                probability, rel=1e-4
            )


def test_the_configuration_of_a_run_is_read_as_it_was_written():
    path = WRITTEN / "run" / "models" / "run" / "config.json"
    stored = json.loads(path.read_text("utf-8"))
    config = config_files.load_config(path, PretrainingConfig)
    assert config.training.precision == stored["training"]["precision"]
    # A later field goes into VALUES_BEFORE if it has a value that changes
    # nothing, so that runs of before continue.
    config_files.check_same_experiment(path, config)


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
