"""Networks and sizes are inferred from a checkpoint."""

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


def test_flags_say_that_networks_share_all_their_weights():
    shapes = {n: x for n, x in SHAPES.items() if n.split("/")[0] != "generator"}
    shapes["generator_predictions/dense/kernel"] = (32, 16)
    flags = architecture.size_flags(architecture.infer(shapes))
    assert flags["generator_sharing"] == "all" and "objective" not in flags


LAYER = "electra/encoder/layer_1/output/dense/kernel"


@pytest.mark.parametrize(
    "change",
    [
        {LAYER: None},
        {LAYER: (64, 31)},
        {"electra/pooler": (1,)},
        {f"{LAYER}/adam_m": None},
        {"x/adam_v": (2,)},
        {"electra/embeddings/word_embeddings": None},
        {"generator/encoder/layer_3/output/dense/bias": (8,)},
    ],
    ids=str,
)
def test_variables_that_fit_no_architecture_are_refused(change):
    shapes = with_slots(SHAPES) | change
    shapes = {key: shape for key, shape in shapes.items() if shape is not None}
    with pytest.raises(UserError):
        architecture.infer(shapes)
