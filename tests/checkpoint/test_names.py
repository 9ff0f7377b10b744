"""The table of names is one-to-one and has all networks' variables."""

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
SHAPES = Architecture(
    encoder=CONFIG,
    heads=("discriminator_predictions", "generator_predictions"),
    tasks={
        "x": {
            "dense": (8, 3),
            "classifier/dense": (8, 8),
            "classifier/out_proj": (8, 2),
        }
    },
).shapes()


def test_each_weight_has_one_name_of_hugging_faces():
    table = names.table(12, "x")
    assert table.keys() == SHAPES.keys()
    assert len({theirs for theirs, _ in table.values()}) == len(table)
    for name, (_, is_transposed) in table.items():
        assert is_transposed == (len(SHAPES[name]) == 2 and "kernel" in name)


def test_all_variables_of_our_layers_are_in_the_table():
    encoder = BertModel(CONFIG)
    encoder.build((None, None))
    heads = [
        GeneratorPredictions(4, 11, 0.02),
        DiscriminatorPredictions(8, 0.1),
    ]
    for head in heads:
        head.build((None, None, 8))
    variables = {v.path for layer in (encoder, *heads) for v in layer.weights}
    assert variables == {x for x in SHAPES if not x.startswith("task_")}


def test_names_are_those_of_transformers():
    table = names.table(12, "x")
    layer, theirs = "electra/encoder/layer_11", "electra.encoder.layer.11"
    for ours, expected in {
        f"{layer}/attention/self/query/kernel": (
            f"{theirs}.attention.self.query.weight",
            True,
        ),
        f"{layer}/output/LayerNorm/beta": (
            f"{theirs}.output.LayerNorm.bias",
            False,
        ),
        "discriminator_predictions/dense_1/bias": (
            "discriminator_predictions.dense_prediction.bias",
            False,
        ),
        "task_specific/x/dense/kernel": ("classifier.weight", True),
        "generator_predictions/output_bias": ("generator_lm_head.bias", False),
    }.items():
        assert table[ours] == expected
