"""The names of weights are one-to-one and all networks' variables have one."""

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
    theirs = set()
    for name, shape in SHAPES.items():
        found, is_transposed = names.to_hugging_face(name, "x")
        assert names.from_hugging_face(found, "x") == (name, is_transposed)
        assert is_transposed == (len(shape) == 2 and "kernel" in name)
        theirs.add(found)
    assert len(theirs) == len(SHAPES)


def test_all_variables_of_our_layers_are_in_the_shapes():
    encoder = BertModel(CONFIG)
    encoder.build((None, None))
    heads = [
        GeneratorPredictions(CONFIG),
        DiscriminatorPredictions(CONFIG),
    ]
    for head in heads:
        head.build((None, None, 8))
    variables = {v.path for layer in (encoder, *heads) for v in layer.weights}
    assert variables == {x for x in SHAPES if not x.startswith("task_")}


def test_names_are_those_of_transformers():
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
        assert names.to_hugging_face(ours, "x") == expected
