import numpy as np
import pytest
import tiny

LOSSES = ["sentence_order", "next_sentence", "any_replaced"]


def _model(loss, objective="electra_sentence", **leaves):
    leaves |= {"objective": objective, "sentence_loss": loss}
    return tiny.model(tiny.config(num_hidden_layers=1, **leaves))


def _assert_sentence_loss(model, out, terms, rows):
    states = model.electra(*rows).sequence_output.numpy()[:, 0]
    head = model.sentence_predictions
    logits = (states @ head.kernel.numpy() + head.bias.numpy())[:, 0]
    labels, weights = (
        out.rearranged.labels.numpy(),
        out.rearranged.weights.numpy(),
    )
    assert 0 < labels[weights > 0].mean() < 1
    nats = tiny.sigmoid_nats(logits, labels)
    expected = np.average(nats, weights=weights)
    tiny.assert_means(terms, {"sentence_loss": expected}, rtol=1e-4)
    right = np.average((logits > 0) == (labels > 0), weights=weights)
    tiny.assert_means(terms, {"sentence_accuracy": right}, rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_sentence_loss_equals_its_formula(loss):
    model = _model(loss, initializer_range=0.3, uncorrupted_share=0.5)
    inputs = tiny.batch()
    out, terms = tiny.forward(model, inputs)
    _assert_sentence_loss(model, out, terms, out.fake.inputs)
    rows = out.rearranged.inputs
    fake = out.fake.inputs.input_ids.numpy() != rows.input_ids.numpy()
    if loss == "any_replaced":
        np.testing.assert_array_equal(out.rearranged.labels, fake.any(1))
        np.testing.assert_array_equal(rows.input_ids, inputs.input_ids)
    else:
        assert (rows.input_ids != inputs.input_ids).numpy().any()


def test_mlm_learns_from_rearranged_rows():
    model = _model("next_sentence", "mlm_sentence", initializer_range=0.3)
    inputs = tiny.batch()
    out, terms = tiny.forward(model, inputs)
    _assert_sentence_loss(model, out, terms, out.masked.inputs)
    used = out.masked.weights.numpy() > 0
    at = np.take_along_axis(
        out.rearranged.inputs.input_ids.numpy(), out.masked.positions.numpy(), 1
    )
    np.testing.assert_array_equal(out.masked.ids.numpy()[used], at[used])
