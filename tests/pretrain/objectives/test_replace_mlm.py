import numpy as np
import tiny
from tiny import KEYS


def _model(**leaves):
    return tiny.model(tiny.config(**{"objective": "replace_mlm", **leaves}))


def test_the_loss_is_that_of_the_original_tokens_at_the_chosen_positions():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    out, terms = tiny.forward(model, inputs)
    logits = model.logits(out.states).numpy().astype(np.float64)  # [B, L, V]
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    rows, slots = np.nonzero(out.masked.weights.numpy())
    at = rows, out.masked.positions.numpy()[rows, slots]
    truth = inputs.input_ids.numpy()[at]
    nats = -np.take_along_axis(log_p[at], truth[:, None], -1)
    hits = log_p[at].argmax(-1) == truth
    assert terms["corrector_loss"].weight == len(nats)
    tiny.assert_means(terms, {"corrector_loss": np.mean(nats)})
    tiny.assert_means(terms, {"corrector_accuracy": np.mean(hits)}, rtol=1e-6)
    np.testing.assert_allclose(
        model.log_probabilities(out.states, None), log_p, atol=1e-5
    )


def test_the_corrector_reads_samples_and_no_masks():
    model, inputs = _model(mask_token_prob=1.0), tiny.batch()
    electra = _model(mask_token_prob=1.0, objective="electra")
    out = model.forward(inputs, keys=KEYS, training=False)
    theirs = electra.forward(inputs, keys=KEYS, training=False)
    num_masks, num_left = (
        np.sum(x.inputs.input_ids == tiny.VOCABULARY.mask_id)
        for x in (out.masked, out.fake)
    )
    assert num_left < num_masks / 4  # the generator may predict a [MASK]
    np.testing.assert_array_equal(out.masked.positions, theirs.masked.positions)
    output = model.electra(*out.fake.inputs)
    np.testing.assert_array_equal(out.states, output.sequence_output)
