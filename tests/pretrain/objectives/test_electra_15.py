import numpy as np
import pytest
import tiny
from tiny import KEYS


def _model(**leaves):
    leaves = {"objective": "electra_15", "num_hidden_layers": 1, **leaves}
    return tiny.model(tiny.config(**leaves))


@pytest.mark.parametrize("original", [(), ("masking",)])
def test_the_loss_is_electras_at_the_chosen_positions(original):
    model = _model(original_behaviour=original, mask_prob=0.3)
    inputs = tiny.batch()
    out, terms = tiny.forward(model, inputs)
    chosen = tiny.chosen(out.masked)
    assert not chosen[inputs.input_mask == 0].any()
    fakes = (out.fake.inputs.input_ids != inputs.input_ids).numpy()
    z = out.disc_logits.numpy()
    nats = tiny.sigmoid_nats(z, fakes)
    tiny.assert_means(terms, {"disc_loss": nats[chosen].mean()})
    assert terms["disc_loss"].weight == chosen.sum()
    _, detection = model.evaluation_step(inputs, keys=KEYS)
    np.testing.assert_array_equal(detection.judged, chosen)
    right = ((z > 0) == fakes)[chosen].mean()
    tiny.assert_means(terms, {"disc_accuracy": right}, rtol=1e-6)
