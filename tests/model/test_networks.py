"""Generator and discriminator as Keras models."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import electra_tf
from electra_tf.model.modeling import BertModel
from electra_tf.util import seeds

CONFIG = dataclasses.replace(
    tiny.BERT,
    num_hidden_layers=1,
    initializer_range=0.3,
    hidden_dropout_prob=0.5,
)
CLASSES = (electra_tf.ElectraDiscriminator, electra_tf.ElectraGenerator)
INPUTS = tiny.batch(4)._asdict()


@pytest.fixture(scope="module", params=CLASSES, ids=lambda x: x.NETWORK)
def network(request):
    with seeds.seed_initializers(0):
        return request.param(CONFIG, tiny.COUNTED, max_seq_length=tiny.LENGTH)


def test_mask_and_segments_are_optional_and_ids_of_any_dtype(network):
    full = {**INPUTS, "segment_ids": np.zeros_like(INPUTS["input_ids"])}
    expected = network(full)["logits"]
    found = network({"input_ids": tf.cast(INPUTS["input_ids"], tf.float32)})
    np.testing.assert_array_equal(found["logits"], expected)


def test_text_is_read_as_ids(network):
    found = network(tf.constant(["w1 [MASK] w3", "w1"]))
    ids = {name: found[name] for name in ("input_ids", "input_mask")}
    is_generator = network.NETWORK == "generator"
    assert (4 in ids["input_ids"].numpy()) == is_generator
    np.testing.assert_array_equal(found["logits"], network(ids)["logits"])
    column = network.read(tf.constant([["w1"], ["w2"]]))  # of Keras' `predict`
    assert column["input_ids"].numpy().tolist() == [[2, 6, 3], [2, 7, 3]]


def test_a_keras_file_restores_the_network(network, tmp_path):
    network.save(tmp_path / "network.keras")
    restored = keras.saving.load_model(tmp_path / "network.keras")
    assert restored.vocabulary == network.vocabulary
    assert restored.vocabulary.counts == tiny.COUNTED.counts
    for inputs in (INPUTS, tf.constant(["W1 w2"])):
        found, expected = (x(inputs)["logits"] for x in (restored, network))
        np.testing.assert_array_equal(found, expected)


def test_a_generator_predicts_at_given_positions():
    generator = electra_tf.ElectraGenerator(CONFIG)
    positions = tf.constant([[1, 3], [2, 2], [4, 1], [1, 2]])
    everywhere = generator(INPUTS)["logits"]
    found = generator({**INPUTS, "positions": positions})["logits"]
    expected = tf.gather(everywhere, positions, batch_dims=1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_configuration_keeps_encoder_reader_seed_and_precision():
    policy = "mixed_bfloat16"
    encoder = BertModel(
        CONFIG, is_packed=True, direction="left_to_right", dtype=policy
    )
    network = electra_tf.ElectraDiscriminator(
        CONFIG,
        tiny.VOCABULARY,
        encoder=encoder,
        seed=7,
        dtype=policy,
        do_lower_case=False,
        strip_accents=False,
    )
    config = network.get_config()
    restored = type(network).from_config(config)
    assert restored.get_config() == config
    assert restored.encoder.is_packed
    assert restored.encoder.direction == "left_to_right"
    assert restored.encoder.dtype_policy.name == policy
    assert restored.reader.max_seq_length == CONFIG.max_position_embeddings


@pytest.mark.parametrize("frozen", ["all", "all but a block", "a part"])
def test_frozen_layers_stay_frozen_in_clones_and_files(
    frozen, network, tmp_path
):
    model = keras.models.clone_model(network)
    count = len(model.trainable_variables)
    block = model.encoder.blocks[0]
    layers = {"all": model, "a part": block.attention.query}
    layers.get(frozen, model.encoder).trainable = False
    if frozen == "all but a block":
        block.trainable = True
        block.attention.trainable = False
    flags = [x.trainable for x in model._flatten_layers()]
    assert len(model.trainable_variables) < count
    model.save(tmp_path / "frozen.keras")
    for found in (
        keras.models.clone_model(model),
        keras.saving.load_model(tmp_path / "frozen.keras"),
    ):
        assert [x.trainable for x in found._flatten_layers()] == flags
