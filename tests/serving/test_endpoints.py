"""Networks of any checkpoint answer as the models; scores cut no piece off."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.loading import Calibration
from electra_tf.checkpoint.weights import ENCODER
from electra_tf.export_saved_model import ExportConfig, main
from electra_tf.pretrain import export
from electra_tf.serving import endpoints
from electra_tf.util import files
from electra_tf.util.errors import ElectraWarning, UserError
from electra_tf.util.flags import save_config

TEMPERATURE = 0.5


@pytest.fixture(scope="module")
def model():
    return tiny.model(tiny.config(num_hidden_layers=1, initializer_range=0.5))


@pytest.fixture(scope="module")
def source(model, tmp_path_factory):
    """Returns a checkpoint with a temperature."""
    directory = tmp_path_factory.mktemp("source")
    weights = export.weights_of(model)
    loading.write(str(directory), weights, "electra_tf")
    fit = Calibration(TEMPERATURE, "errors", 0)
    files.write_json(directory / loading.CALIBRATION_FILE, fit._asdict())
    return directory


def _inputs():
    ids = tiny.batch(2)._asdict()
    return ids | {"segment_ids": tf.zeros_like(ids["segment_ids"])}


def _logits(model, ids):
    states = model.electra(**ids).sequence_output
    return model.discriminator_predictions(states).numpy()


def test_answers_are_at_the_temperature_and_0_on_padding(model, source):
    detector = endpoints.of_checkpoint(str(source))["discriminator"]
    ids = _inputs()
    replaced = 1 / (1 + np.exp(-_logits(model, ids) / TEMPERATURE))
    mask = ids["input_mask"].numpy()
    found = detector.predict(ids)["probability_replaced"]
    np.testing.assert_allclose(found, mask * replaced, atol=1e-5)
    found, expected = detector.log_probs(ids)[mask > 0], np.log(1 - replaced)
    np.testing.assert_allclose(found, expected[mask > 0], atol=1e-4)
    with pytest.warns(ElectraWarning):  # of another step
        assert endpoints.temperature_of(str(source), 7) == 1


@pytest.mark.slow
@pytest.mark.parametrize("target", ["hf", "encoder"])
def test_other_formats_and_encoders_alone_are_exported(
    target, model, source, tmp_path
):
    weights = loading.read(str(source))
    options = {"hf": {}, "encoder": {"networks": [ENCODER]}}[target]
    loading.write(str(tmp_path / "x"), weights, "hf", **options)
    checkpoint = str(tmp_path / "x")
    main(ExportConfig(checkpoint=checkpoint, output_dir=str(tmp_path)))
    name = "encoder" if target == "encoder" else "discriminator"
    loaded = tf.saved_model.load(tmp_path / name / "ids/1")
    found = loaded.encode(**_inputs())["sequence_output"]
    expected = model.electra(**_inputs()).sequence_output
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (tmp_path / "generator").exists() == (target == "hf")


@pytest.mark.parametrize("objective", ["replace_mlm", "electric"])
def test_heads_that_only_a_run_can_export_are_refused(objective, tmp_path):
    config = tiny.config(objective=objective)
    weights = export.weights_of(tiny.model(config))
    loading.write(str(tmp_path), weights, "electra_tf")
    if objective == "electric":  # known from the run's configuration
        (tmp_path / "architecture.json").unlink()
        save_config(tmp_path / "config.json", config)
    with pytest.raises(UserError):
        endpoints.of_checkpoint(str(tmp_path))
