"""Networks of any checkpoint answer as the models; scores cut no piece off."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.checkpoint import calibration, loading
from electra_tf.checkpoint.calibration import Calibration
from electra_tf.checkpoint.weights import ENCODER
from electra_tf.export_saved_model import ExportConfig, main
from electra_tf.model.text_reader import TextReader
from electra_tf.pretrain import export
from electra_tf.serving import endpoints, saved_models
from electra_tf.util.errors import ElectraWarning, UserError
from electra_tf.util.flags import save_config

SIZE = 5  # word pieces in a row
TEXTS = ["", "w1", "w1 w2 w3 w4 w5", "w9 w8 w7 w6 w5 w4", "w3 " * 23, ""]
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
    calibration.write(directory, Calibration(TEMPERATURE, "errors", 0))
    return directory


def _inputs():
    batch = tiny.batch(2)._replace(
        segment_ids=tf.zeros([2, tiny.LENGTH], tf.int32)
    )
    return batch._asdict()


def _logits(model, ids):
    states = model.electra(**ids).sequence_output
    return model.discriminator_predictions(states).numpy()


def _log_probs(ids):
    """Scores a token by its id, its position and the length of its row."""
    ids, mask = (ids[k].numpy() for k in ("input_ids", "input_mask"))
    places = np.arange(ids.shape[1])
    sizes = mask.sum(1, keepdims=True)
    scores = -(ids + places / 8 + sizes / 256) * (mask > 0) - 999 * (mask == 0)
    return tf.constant(scores, tf.float32)


def _expected(ids):
    """Returns the scores of a text, each from the window with most context."""
    last = max(0, len(ids) - SIZE)
    starts = [*range(0, last, SIZE // 2), last]
    scores = []
    for place, token in enumerate(ids):
        margins = [min(place - s, s + SIZE - 1 - place) for s in starts]
        start = starts[int(np.argmax(margins))]
        size = min(SIZE, len(ids) - start) + 2
        scores.append(-(token + (1 + place - start) / 8 + size / 256))
    return scores


@pytest.mark.parametrize("block_size", [2, 32])
def test_each_piece_is_scored_once_where_it_has_most_context(
    block_size, monkeypatch
):
    monkeypatch.setattr(saved_models, "BLOCK_SIZE", block_size)
    reader = TextReader(tiny.VOCABULARY, max_seq_length=SIZE + 2)
    network = endpoints.Network(
        encoder=None,
        layers=(),
        reader=reader,
        predict=None,
        log_probs=_log_probs,
    )
    found = network.score(tf.constant(TEXTS))
    found = {name: x.numpy() for name, x in found.items()}
    for row, text in enumerate(TEXTS):
        words = text.split()
        expected = _expected([*map(tiny.VOCABULARY.tokens.index, words)])
        log_probs = found["log_probs"][row]
        np.testing.assert_allclose(
            log_probs[: len(words)], expected, rtol=1e-6, err_msg=text
        )
        assert not log_probs[len(words) :].any()
        tokens = [token.decode() for token in found["tokens"][row]]
        assert tokens == words + [""] * (23 - len(words))
        assert found["num_tokens"][row] == len(words)
        np.testing.assert_allclose(found["total"][row], sum(expected), 1e-6)
        mean = np.mean(expected) if words else 0
        np.testing.assert_allclose(found["mean"][row], mean, 1e-6)
    found = network.score(tf.zeros([0], tf.string))
    assert found["log_probs"].shape[0] == found["total"].shape[0] == 0


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
