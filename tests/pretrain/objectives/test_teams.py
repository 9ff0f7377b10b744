import numpy as np
import tensorflow as tf
import tiny

from electra_tf.model.modeling import attention_bias
from electra_tf.pretrain import export


def _model(**leaves):
    return tiny.model(tiny.config(**{"objective": "teams", **leaves}))


def test_the_loss_is_that_of_a_choice_among_words():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    out, terms = tiny.forward(model, inputs)
    words, truth = out.words.numpy(), out.masked.ids.numpy()
    used = out.masked.weights.numpy() > 0
    np.testing.assert_array_equal(words[..., 0], truth)
    assert all(len({*slot}) == 5 for slot in words.reshape(-1, 5).tolist())
    head = model.selection_predictions
    states = model.electra(*out.fake.inputs).sequence_output
    x = head.layer_norm(tf.nn.gelu(head.dense(states))).numpy()
    x = np.take_along_axis(x, out.masked.positions.numpy()[..., None], 1)
    table = model.electra.embeddings.word_embeddings.numpy()
    p = np.exp((table[words] * x[:, :, None]).sum(-1).astype(np.float64))
    p /= p.sum(-1, keepdims=True)
    nats = -np.log(p[..., 0][used]).mean()
    tiny.assert_means(terms, {"selection_loss": nats})
    right = (p.argmax(-1) == 0)[used].mean()
    tiny.assert_means(terms, {"selection_accuracy": right}, rtol=1e-6)


def _verdicts(model, inputs):
    """Applies the discriminator's own layers to the states under them."""
    output = model.electra(*inputs)
    x = (output.embedding_output, *output.all_layers)[1]
    x = model.blocks[0](x, attention_bias(inputs.input_mask))
    return model.discriminator_predictions(x)


def test_the_discriminator_has_a_top_layer_of_its_own():
    model = _model(initializer_range=0.3)
    inputs = tiny.batch()
    expected = _verdicts(model, inputs)
    found = model.discriminate(inputs)
    np.testing.assert_array_equal(found, expected)
    detector = export.networks_of(model)["discriminator"]
    np.testing.assert_allclose(
        detector.predict(inputs._asdict())["probability_replaced"],
        tf.sigmoid(expected) * tf.cast(inputs.input_mask, tf.float32),
        rtol=1e-6,
    )
    scopes = {v.path.split("/")[0] for x in detector.layers for v in x.weights}
    own = {"discriminator_encoder", "discriminator_predictions"}
    assert scopes == {"electra"} | own
