"""Masked language modelling against its formula, and on a tiny language."""

import numpy as np
import tiny
from tiny import KEYS


def test_the_loss_is_the_cross_entropy_at_masked_slots():
    config = tiny.config(objective="mlm", initializer_range=0.3)
    model, inputs = tiny.model(config), tiny.batch()
    out = model.forward(inputs, keys=KEYS, training=False)
    used = out.masked.weights.numpy() > 0
    words = np.take_along_axis(
        inputs.input_ids.numpy(), out.masked.positions.numpy(), 1
    )
    nats = tiny.softmax_nats(out.mlm_logits, words)[used]
    terms = model.compute_losses(inputs, keys=KEYS, training=False)
    np.testing.assert_allclose(
        terms["masked_lm_loss"].mean(), nats.mean(), rtol=1e-5
    )
    assert model.total_loss(terms) == terms["masked_lm_loss"].mean()
