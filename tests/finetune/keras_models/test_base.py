"""The backbone encodes strings and ids, alone and in models of users."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.util import seeds

TEXTS = ["the good film is very", "it was a bad plot", "a", "film " * 9]


@pytest.fixture(scope="module")
def backbone(path):
    return electra_tf.ElectraBackbone.from_checkpoint(path, max_seq_length=16)


def test_features_are_states_of_the_encoder(backbone):
    batch = backbone.preprocess(tf.constant(TEXTS))
    states = backbone.encoder(
        batch["input_ids"], batch["input_mask"], batch["segment_ids"]
    )
    mask = batch["input_mask"].numpy()[..., np.newaxis]
    for layer, size in ((0, 1), (-1, 32)):
        x = states.all_layers[layer].numpy()
        for pooling, expected in (
            ("mean", (x * mask).sum(1) / mask.sum(1)),
            ("cls", x[:, 0]),
        ):
            found = backbone.embed(
                TEXTS, pooling=pooling, layer=layer, batch_size=size
            )
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    pairs = backbone.embed(list(zip(TEXTS, TEXTS, strict=True)))
    assert (np.abs(pairs - backbone.embed(TEXTS)).max(1) > 1e-3).all()


def test_strings_and_their_ids_have_the_same_states(backbone):
    texts = tf.constant(TEXTS)
    for inputs in ((texts,), (texts, texts)):
        ids = backbone.preprocess(*inputs)
        found, expected = backbone(inputs), backbone(ids)
        for name in ("input_ids", "input_mask"):
            expected[name] = ids[name]
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)


def test_the_backbone_trains_and_saves_in_functional_models(backbone, tmp_path):
    texts = keras.Input((), dtype="string")
    with seeds.seed_initializers(0):
        outputs = keras.layers.Dense(2)(backbone(texts)["pooled_output"])
    model = keras.Model(texts, outputs)
    model.compile(
        backbone.make_optimizer(3e-3, num_train_steps=9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=True,
    )
    data = tf.data.Dataset.from_tensor_slices((TEXTS, [0, 1, 0, 1])).batch(2)
    losses = model.fit(data, epochs=4, verbose=0, shuffle=False).history["loss"]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    texts = tf.constant(TEXTS)
    np.testing.assert_allclose(again(texts), model(texts), rtol=1e-5)
    rates = {v.path: model.optimizer._factors_of(v)[0] for v in model.variables}
    assert rates["electra/encoder/layer_0/output/dense/kernel"] == 0.8
    assert {rates[v.path] for v in model.layers[-1].variables} == {1.0}


def test_ids_of_any_length_are_inputs_of_functional_models(backbone):
    batch = backbone.preprocess(tf.constant(TEXTS))
    inputs = {k: keras.Input((None,), dtype="int32", name=k) for k in batch}
    outputs = backbone(inputs)
    assert outputs["sequence_output"].shape == (None, None, 16)
    model = keras.Model(inputs, outputs)
    for name, expected in backbone(batch).items():
        np.testing.assert_allclose(model(batch)[name], expected, rtol=1e-5)
