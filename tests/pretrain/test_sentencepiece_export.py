"""Exports of SentencePiece models encode text as the library does."""

import dataclasses

import multilingual
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import tiny

from electra_tf.model import sentencepiece_model
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import evaluation, export
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.serving import saved_models


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "spm.model"
    path.write_bytes(
        sentencepiece_model.learn(
            multilingual.SENTENCES,
            vocab_size=350,
            model_type="unigram",
            do_lower_case=True,
            strip_accents=True,
        )
    )
    config = tiny.config(
        num_hidden_layers=1, tokenizer="sentencepiece", initializer_range=0.5
    )
    return Electra(config, Vocabulary.from_file(str(path)).padded(16))


@pytest.fixture(scope="module")
def root(model, tmp_path_factory):
    """SavedModels of texts, with the signature that they have in an export."""
    root = tmp_path_factory.mktemp("saved_model")
    for name, network in export.networks_of(model).items():
        signatures = network.signatures
        answer = {"serving_default": signatures.of_text["serving_default"]}
        served = dataclasses.replace(signatures, of_text=answer, of_ids={})
        saved_models.export(served, root / name)
    return root


def expected_ids(model, texts):
    """Encodes texts without masks by the reference library."""
    reference = sentencepiece.SentencePieceProcessor(
        model_proto=model.vocabulary.sentencepiece
    )
    room = tiny.LENGTH - 2
    rows = [[2, *ids[:room], 3] for ids in reference.encode(list(texts))]
    return tf.ragged.constant(rows, dtype=tf.int32).to_tensor()


@pytest.mark.parametrize("network", ["discriminator", "generator"])
def test_exported_ids_equal_the_references(model, root, network):
    texts = multilingual.SENTENCES + multilingual.AWKWARD[:9]
    loaded = tf.saved_model.load(root / network / "text" / "1")
    found = loaded.serving_default(tf.constant(texts))
    ids = expected_ids(model, texts)
    np.testing.assert_array_equal(found["input_ids"], ids)
    tokens = np.array([t.encode() for t in model.vocabulary.tokens], object)
    mask = found["input_mask"].numpy() > 0
    np.testing.assert_array_equal(
        found["tokens"].numpy()[mask], tokens[ids.numpy()[mask]]
    )


def test_a_mask_in_text_becomes_the_mask_token(model, root):
    loaded = tf.saved_model.load(root / "generator" / "text" / "1")
    found = loaded.serving_default(tf.constant(["the [MASK], a[MASK]"]))
    ids = found["input_ids"].numpy()[0].tolist()
    (the,) = expected_ids(model, ["the"]).numpy()[:, 1:-1].tolist()
    (whole,) = expected_ids(model, ["the, a"]).numpy()[:, 1:-1].tolist()
    assert ids == [2, *the, 4, *whole[len(the) :], 4, 3]
    assert (found["top_tokens"].numpy()[0, -2] != b"").all()


def test_a_tf1_session_runs_the_saved_model(model, root):
    path, v1 = root / "discriminator" / "text" / "1", tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.load(session, ["serve"], str(path))
        signature = meta.signature_def["serving_default"]
        feeds = {signature.inputs["text"].name: ["the lazy dog"]}
        found = session.run(signature.outputs["input_ids"].name, feeds)
    expected = expected_ids(model, ["the lazy dog"])
    np.testing.assert_array_equal(found, expected)


def test_samples_join_pieces_to_words(model):
    ids = expected_ids(model, ["the lazy dog"])
    mask = tf.ones_like(ids)
    inputs = Inputs(ids, mask, tf.zeros_like(ids))
    table = evaluation.samples(model, tf.data.Dataset.from_tensors(inputs), 1)
    text = table.splitlines()[0]
    # An untrained discriminator may flag, and so bracket, any token.
    assert text.lstrip("[").startswith("CLS]")
    assert sentencepiece_model.WORD_INDICATOR not in text
