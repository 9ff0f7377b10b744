"""An objective is one class and one line, as `new_objective`."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tiny
from new_objective import NAME

from electra_tf.config.objectives import get_class
from electra_tf.pretrain import evaluation, export, health
from electra_tf.pretrain.flops import Sizes
from electra_tf.util.errors import UserError

pytestmark = pytest.mark.usefixtures("registered")


def _model():
    return tiny.model(tiny.config(objective=NAME, num_hidden_layers=1))


def test_a_new_objective_is_a_name_with_its_own_checks():
    for leaves in ({"generator_type": "uniform"}, {"freeze_generator": True}):
        with pytest.raises(UserError, match=NAME):
            tiny.model(tiny.config(objective=NAME, **leaves))


def test_a_new_objective_has_the_passes_of_its_parent():
    config = tiny.config(objective=NAME)
    parts = get_class(NAME).passes(Sizes(config, 60, 16))
    assert list(parts) == ["generator", "discriminator"]


def test_a_new_objective_starts_at_its_declared_chance():
    found = health.expected_start(_model())
    expected = math.log(tiny.VOCABULARY.size) + 50 * math.log(2)
    assert found == pytest.approx(expected)


@pytest.mark.slow
def test_a_new_objective_is_evaluated_sampled_and_exported(tmp_path):
    model, inputs = _model(), tiny.batch()
    dataset = tf.data.Dataset.from_tensors(inputs)
    metrics = evaluation.evaluate(model, dataset)
    assert {"size_loss", "disc_auc", "masked_lm_loss"} <= metrics.keys()
    assert metrics["loss"] == pytest.approx(
        metrics["masked_lm_loss"]
        + 50 * metrics["disc_loss"]
        + 0.5 * metrics["size_loss"]
    )
    assert "P(replaced)" in evaluation.samples(model, dataset, 2)
    paths = export.export(model, tmp_path)
    assert [path.parts[-3] for path in paths] == [
        *["discriminator"] * 2,
        *["generator"] * 2,
    ]
    loaded = tf.saved_model.load(str(paths[1]))
    served = loaded.serving_default(*inputs)
    expected = tf.sigmoid(model.discriminate(inputs)) * tf.cast(
        inputs.is_real, tf.float32
    )
    np.testing.assert_allclose(
        served["probability_replaced"], expected, rtol=1e-4, atol=1e-6
    )
