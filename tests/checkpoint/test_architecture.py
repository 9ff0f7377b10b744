"""An architecture is inferred from names and shapes of all variables."""

import json

import golden_arrays
import numpy as np
import pytest

from electra_tf.checkpoint import architecture
from electra_tf.util.errors import UserError

LISTING = golden_arrays.FULL / "model/real_sizes_variables.json"
SHAPES = {
    name: array.shape
    for name, array in np.load(
        golden_arrays.HERE / "golden/model/small_like_vars.npz"
    ).items()
    if name != "global_step"
}


def listings():
    return json.loads(LISTING.read_text()) if LISTING.exists() else {}


def with_slots(shapes):
    slots = {
        f"{n}/{s}": x for n, x in shapes.items() for s in ("adam_m", "adam_v")
    }
    return {**shapes, **slots, "global_step": ()}


@pytest.mark.parametrize("name", listings())
def test_sizes_of_every_original_model_are_inferred(name):
    shapes = {n: tuple(x) for n, x, _ in listings()[name]["variables"]}
    inferred = architecture.infer(shapes)
    assert inferred.shapes() == shapes
    heads = inferred.encoder.num_attention_heads
    assert heads == {"small": 4, "base_": 12, "base": 12, "large": 16}[name[:5]]


def test_sizes_are_inferred_from_shapes():
    shapes = SHAPES | {"electra/embeddings/token_type_embeddings": (3, 16)}
    inferred = architecture.infer(with_slots(shapes), num_attention_heads=2)
    encoder, generator = inferred.encoder, inferred.generator
    assert (encoder.hidden_size, encoder.embedding_size) == (32, 16)
    assert (generator.hidden_size, generator.embedding_size) == (8, 16)
    assert encoder.num_hidden_layers == generator.num_hidden_layers == 2
    assert encoder.num_attention_heads == 2
    assert generator.num_attention_heads == 1
    assert encoder.type_vocab_size == generator.type_vocab_size == 3
    assert inferred.generator_sharing == "embeddings"
    assert inferred.shapes() == shapes


def test_flags_say_that_networks_share_all_their_weights():
    shapes = {n: x for n, x in SHAPES.items() if n.split("/")[0] != "generator"}
    shapes["generator_predictions/dense/kernel"] = (32, 16)
    flags = architecture.size_flags(architecture.infer(shapes))
    assert flags["generator_sharing"] == "all" and "objective" not in flags


def test_num_attention_heads_of_0_is_refused_not_replaced_by_the_default():
    with pytest.raises(UserError):
        architecture.infer(with_slots(SHAPES), num_attention_heads=0)


def test_a_fine_tuned_head_is_inferred():
    shapes = {n: s for n, s in SHAPES.items() if n.startswith("electra/")}
    shapes["task_specific/cola/dense/kernel"] = (32, 2)
    shapes["task_specific/cola/dense/bias"] = (2,)
    inferred = architecture.infer(with_slots(shapes))
    assert inferred.tasks == {"cola": {"dense": (32, 2)}}
    assert inferred.heads == () and inferred.generator is None


LAYER = "electra/encoder/layer_1/output/dense/kernel"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({LAYER: None}, LAYER),
        ({LAYER: (64, 31)}, LAYER),
        ({"electra/pooler": (1,)}, "electra/pooler"),
        ({f"{LAYER}/adam_m": None}, f"{LAYER}/adam_m"),
        ({f"{LAYER}/adam_v": (2,)}, f"{LAYER}/adam_v"),
        ({"x/adam_v": (2,)}, "x/adam_v"),
        ({"electra/embeddings/word_embeddings": None}, "word_embeddings"),
        ({"electra/embeddings/position_embeddings": (4,)}, "position_embedd"),
        (
            {"generator/encoder/layer_3/output/dense/bias": (8,)},
            "generator/encoder/layer_2",
        ),
    ],
)
def test_variables_that_fit_no_architecture_are_named(change, name):
    shapes = with_slots(SHAPES) | change
    shapes = {key: shape for key, shape in shapes.items() if shape is not None}
    with pytest.raises(UserError):
        architecture.infer(shapes)
