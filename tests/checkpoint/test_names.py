"""The table of names is one-to-one and has all networks' variables."""

import pytest

from electra_tf.checkpoint import names
from electra_tf.checkpoint.architecture import Architecture
from electra_tf.config.model import BertConfig
from electra_tf.model.heads import (
    DiscriminatorPredictions,
    GeneratorPredictions,
)
from electra_tf.model.modeling import BertModel

CONFIG = BertConfig(
    vocab_size=11,
    hidden_size=8,
    num_hidden_layers=12,
    num_attention_heads=2,
    intermediate_size=12,
    embedding_size=4,
    max_position_embeddings=6,
)
ARCHITECTURE = Architecture(
    encoder=CONFIG,
    heads=("discriminator_predictions", "generator_predictions"),
    tasks={
        "ner": {"dense": (8, 3)},
        "sst": {"classifier/dense": (8, 8), "classifier/out_proj": (8, 2)},
    },
)


def test_each_weight_has_one_hugging_face_name_which_maps_back():
    shapes = ARCHITECTURE.shapes()
    theirs = set()
    for name in shapes:
        row = names.to_hugging_face(name)
        assert row.name == name
        task = name.split("/")[1] if name.startswith("task_") else "unused"
        assert names.from_hugging_face(row.hugging_face, task) == row
        theirs.add(row.hugging_face)
    assert len(theirs) == len(shapes)


def test_all_variables_of_our_layers_are_in_the_table():
    encoder = BertModel(CONFIG)
    encoder.build((None, None))
    heads = [
        GeneratorPredictions(4, 11, 0.02),
        DiscriminatorPredictions(8, 0.1),
    ]
    for head in heads:
        head.build((None, None, 8))
    names = {v.path for layer in (encoder, *heads) for v in layer.weights}
    assert names == {
        name for name in ARCHITECTURE.shapes() if not name.startswith("task_")
    }


@pytest.mark.parametrize(
    ("ours", "theirs", "is_transposed"),
    [
        (
            "electra/encoder/layer_11/attention/self/query/kernel",
            "electra.encoder.layer.11.attention.self.query.weight",
            True,
        ),
        (
            "electra/encoder/layer_0/output/LayerNorm/gamma",
            "electra.encoder.layer.0.output.LayerNorm.weight",
            False,
        ),
        (
            "electra/embeddings/word_embeddings",
            "electra.embeddings.word_embeddings.weight",
            False,
        ),
        (
            "discriminator_predictions/dense_1/kernel",
            "discriminator_predictions.dense_prediction.weight",
            True,
        ),
        ("generator_predictions/output_bias", "generator_lm_head.bias", False),
        ("task_specific/ner/dense/kernel", "classifier.weight", True),
        (
            "task_specific/ner/classifier/out_proj/bias",
            "classifier.out_proj.bias",
            False,
        ),
    ],
)
def test_names_are_those_of_the_original_and_of_hugging_face(
    ours, theirs, is_transposed
):
    row = names.WeightNames(ours, theirs, is_transposed)
    assert names.to_hugging_face(ours) == row
    assert names.from_hugging_face(theirs, "ner") == row


@pytest.mark.parametrize(
    "name",
    [
        "",
        "electra/encoder/layer_x/output/dense/kernel",
        "electra/embeddings/word_embeddings/adam_m",
        "generator/embeddings/word_embeddings",
        "xelectra/embeddings/word_embeddings",
        "task_specific/a/b/dense/kernel",
        "global_step",
    ],
)
def test_other_names_have_no_row(name):
    assert names.to_hugging_face(name) is None
    assert names.from_hugging_face(name.replace("/", ".")) is None
