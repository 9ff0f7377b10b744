import numpy as np
import tiny


def _model(**leaves):
    return tiny.model(tiny.config(objective="script", **leaves))


def _scores(model, inputs):
    """Returns the head's score of every word, float64 [B, L, V]."""
    head = model.generator_predictions
    states = model.electra(*inputs).sequence_output
    table = model.electra.embeddings.word_embeddings.numpy()
    scores = head.project(states).numpy() @ table.T + head.output_bias.numpy()
    return scores.astype(np.float64)


def test_words_and_verdicts_are_two_readings_of_one_network():
    model = _model(initializer_range=0.3)
    inputs = tiny.batch()
    model.generator_predictions.output_bias.assign(
        np.linspace(-1, 1, tiny.VOCABULARY.size)
    )
    out, _ = tiny.forward(model, inputs)
    at = out.masked.positions.numpy()[..., None]
    words = np.take_along_axis(_scores(model, out.masked.inputs), at, 1)
    used = out.masked.weights.numpy() > 0
    np.testing.assert_allclose(
        out.mlm_logits.numpy()[used], words[used], rtol=1e-4, atol=1e-4
    )
    real = inputs.input_mask.numpy() > 0
    s = np.log(np.exp(_scores(model, out.fake.inputs)).mean(-1))[real]
    np.testing.assert_allclose(out.disc_logits.numpy()[real], s, atol=1e-4)
