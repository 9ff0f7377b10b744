"""Generator and discriminator as Keras models."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import electra_tf
from electra_tf.model import shared_embeddings
from electra_tf.model.modeling import BertModel
from electra_tf.model.networks import EncoderWithHead
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

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
        return request.param(
            CONFIG, tiny.VOCABULARY, max_seq_length=tiny.LENGTH
        )


@pytest.fixture(scope="module")
def outputs(network):
    return network(INPUTS)


def test_outputs_have_the_shapes_that_are_documented(network, outputs):
    rows, length = 4, tiny.LENGTH
    last = {"discriminator": (), "generator": (tiny.VOCABULARY.size,)}
    assert {name: tuple(x.shape) for name, x in outputs.items()} == {
        "logits": (rows, length, *last[network.NETWORK]),
        "sequence_output": (rows, length, 16),
        "pooled_output": (rows, 16),
    }
    assert {x.dtype for x in outputs.values()} == {tf.float32}


def test_variables_have_the_names_of_checkpoints(network):
    scopes = {v.path.partition("/")[0] for v in network.weights}
    assert scopes == {"electra", f"{network.NETWORK}_predictions"}


def test_mask_and_segments_are_optional_and_ids_of_any_dtype(network):
    full = {**INPUTS, "segment_ids": np.zeros_like(INPUTS["input_ids"])}
    expected = network(full)["logits"]
    found = network({"input_ids": tf.cast(INPUTS["input_ids"], tf.float32)})
    np.testing.assert_array_equal(found["logits"], expected)


def test_ids_of_other_names_are_refused_not_ignored(network):
    renamed = {
        "input_ids": INPUTS["input_ids"],
        "attention_mask": INPUTS["input_mask"],
    }
    with pytest.raises(UserError, match="attention_mask to input_mask"):
        network(renamed)
    with pytest.raises(UserError, match="named input_ids"):
        network({"input_mask": INPUTS["input_mask"]})


@pytest.mark.parametrize("cast", [tf.identity, lambda x: tf.cast(x, "float32")])
def test_ids_without_a_name_are_refused_not_read_as_texts(cast, network):
    with pytest.raises(UserError, match="must be texts, or a dict of ids"):
        network(cast(INPUTS["input_ids"]))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, CONFIG.max_position_embeddings + 1), "at most .* ids, the numb"),
        ((4,), "rows of ids.*1 dimensions. Put a single row in a list"),
        ((1, 2, 4), "3 dimensions"),
    ],
)
def test_ids_that_are_no_rows_or_too_long_are_refused(network, shape, message):
    with pytest.raises(UserError, match=message):
        network({"input_ids": np.ones(shape, np.int32)})


def test_text_is_read_as_ids(network):
    found = network(tf.constant(["w1 [MASK] w3", "w1"]))
    ids = {name: found[name] for name in ("input_ids", "input_mask")}
    is_generator = network.NETWORK == "generator"
    assert (4 in ids["input_ids"].numpy()) == is_generator
    np.testing.assert_array_equal(found["logits"], network(ids)["logits"])
    column = network.read(tf.constant([["w1"], ["w2"]]))  # of Keras' `predict`
    assert column["input_ids"].numpy().tolist() == [[2, 6, 3], [2, 7, 3]]


def test_dropout_needs_training_and_follows_its_keys(network, outputs):
    def logits(**arguments):
        return network(INPUTS, **arguments)["logits"].numpy()

    one, other = (logits(training=True) for _ in range(2))
    assert (one != other).any() and (one != outputs["logits"].numpy()).any()
    keys = tf.constant([1, 2, 3, 4], tf.uint32)
    np.testing.assert_array_equal(logits(keys=keys), logits(keys=keys))


def test_a_keras_file_restores_the_network(network, outputs, tmp_path):
    network.save(tmp_path / "network.keras")
    restored = keras.saving.load_model(tmp_path / "network.keras")
    np.testing.assert_array_equal(restored(INPUTS)["logits"], outputs["logits"])
    text = tf.constant(["W1 w2"])
    np.testing.assert_array_equal(
        restored(text)["logits"], network(text)["logits"]
    )


@pytest.mark.parametrize("is_text", [True, False], ids=["text", "ids"])
def test_a_functional_model_may_contain_the_network(is_text, network, tmp_path):
    if is_text:
        inputs = keras.Input((), dtype="string")
        rows = tf.constant(["w1 w2", "w3"])
        states = network(inputs)["sequence_output"]
    else:
        inputs = keras.Input((tiny.LENGTH,), dtype="int32")
        rows = INPUTS["input_ids"]
        states = network({"input_ids": inputs})["sequence_output"]
    pooled = keras.layers.GlobalMaxPooling1D()(states)
    model = keras.Model(inputs, keras.layers.Dense(2)(pooled))
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(restored(rows), model(rows))


def test_summary_names_encoder_and_head(network, capsys):
    network.summary()
    shown = capsys.readouterr().out
    assert "electra (BertModel)" in shown
    assert f"{network.count_params():,}" in shown


def test_a_generator_predicts_at_given_positions():
    generator = electra_tf.ElectraGenerator(CONFIG)
    positions = tf.constant([[1, 3], [2, 2], [4, 1], [1, 2]])
    everywhere = generator(INPUTS)["logits"]
    found = generator({**INPUTS, "positions": positions})["logits"]
    expected = tf.gather(everywhere, positions, batch_dims=1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    discriminator = electra_tf.ElectraDiscriminator(CONFIG)
    message = "optionally input_mask, segment_ids. Received: .*positions"
    with pytest.raises(UserError, match=message):
        discriminator({**INPUTS, "positions": positions})


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
    restored = type(network).from_config(network.get_config())
    assert restored.encoder.is_packed
    assert restored.encoder.direction == "left_to_right"
    assert restored.seed == 7
    assert restored.dtype_policy.name == policy
    assert restored.encoder.dtype_policy.name == policy
    assert not restored.reader.do_lower_case
    assert not restored.reader.strip_accents
    assert restored.reader.max_seq_length == CONFIG.max_position_embeddings


def test_dropout_without_keys_follows_the_seed():
    encoder = BertModel(CONFIG)
    networks = [
        EncoderWithHead(CONFIG, encoder=encoder, seed=seed)
        for seed in (1, 1, 2)
    ]
    first, same, other = (
        network(INPUTS, training=True)["sequence_output"].numpy()
        for network in networks
    )
    assert (first == same).all() and (first != other).any()


def test_an_export_has_the_signature_that_is_asked_for(monkeypatch):
    given = []
    monkeypatch.setattr(
        keras.Model,
        "export",
        lambda *_, input_signature: given.append(input_signature),
    )
    network = EncoderWithHead(CONFIG)
    mine = [keras.InputSpec(dtype="int32", shape=(None, 8))]
    network.export("unused", input_signature=mine)
    network.export("unused")
    assert given[0] is mine
    ((ids,),) = given[1:]
    assert [*ids] == ["input_ids", "input_mask", "segment_ids"]
    assert {spec.shape for spec in ids.values()} == {(None, None)}


def test_text_without_a_vocabulary_is_refused():
    network = electra_tf.ElectraDiscriminator(CONFIG)
    with pytest.raises(UserError, match="must have a vocabulary"):
        network.read(tf.constant(["w1"]))


@pytest.mark.parametrize("length", [0, 2, 41])
def test_rows_must_hold_a_token_and_fit_the_positions(length):
    assert CONFIG.max_position_embeddings == 40
    with pytest.raises(UserError, match=f"from 3 to 40.*Received: {length}"):
        electra_tf.ElectraDiscriminator(
            CONFIG, tiny.VOCABULARY, max_seq_length=length
        )


def test_a_vocabulary_of_more_tokens_than_embeddings_is_refused():
    config = dataclasses.replace(CONFIG, vocab_size=7)
    for cls in (*CLASSES, electra_tf.ElectraBackbone):
        with pytest.raises(UserError, match="at most 7 tokens.*: 60 tokens"):
            cls(config, tiny.VOCABULARY)


def test_a_network_with_shared_embeddings_cannot_be_saved():
    base = BertModel(CONFIG)
    base.build((None, None))
    tables = shared_embeddings.TokenSharingEmbeddings(
        CONFIG, base.embeddings.word_embeddings
    )
    encoder = BertModel(CONFIG, embeddings=tables)
    network = electra_tf.ElectraGenerator(CONFIG, encoder=encoder)
    with pytest.raises(UserError, match="embeddings of its own"):
        network.get_config()


@pytest.mark.slow
def test_an_exported_network_reads_ids(tmp_path):
    network = electra_tf.ElectraDiscriminator(CONFIG)
    network.export(str(tmp_path / "exported"), verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(
        served.serve(INPUTS)["logits"], network(INPUTS)["logits"], atol=1e-5
    )


def test_an_encoder_may_have_no_head():
    network = EncoderWithHead(CONFIG)
    assert set(network(INPUTS)) == {"sequence_output", "pooled_output"}
