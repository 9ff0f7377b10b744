"""The names of all weights: ours (the original's) and Hugging Face's.

Our variable paths are the original's TF1 names. Hugging Face's transformers
have a dot for each slash of a module's name, except in `_RENAMED`, and name the
weights of a module

| here | Hugging Face | |
|---|---|---|
| kernel [in, out] | weight [out, in] | transposed |
| bias | bias | |
| gamma, beta | weight, bias | LayerNorm |

A Hugging Face directory holds a single network, so that a generator's encoder
is `electra` there, too; `weights.select` renames it.

Source: the original's model/modeling.py and run_pretraining.py; transformers,
models/electra/modeling_electra.py.
"""

from collections.abc import Sequence

from electra_tf.config.model import TABLES

# The modules of an encoder and their sizes, two for a dense layer and one for a
# LayerNorm: E embedding, H hidden, I intermediate size.
EMBEDDINGS_NORM = ("embeddings/LayerNorm", "E")
EMBEDDINGS_PROJECT = ("embeddings_project", "EH")
LAYER = (
    ("encoder/layer_{i}/attention/self/query", "HH"),
    ("encoder/layer_{i}/attention/self/key", "HH"),
    ("encoder/layer_{i}/attention/self/value", "HH"),
    ("encoder/layer_{i}/attention/output/dense", "HH"),
    ("encoder/layer_{i}/attention/output/LayerNorm", "H"),
    ("encoder/layer_{i}/intermediate/dense", "HI"),
    ("encoder/layer_{i}/output/dense", "IH"),
    ("encoder/layer_{i}/output/LayerNorm", "H"),
)
# Starts of our names, and of theirs with slashes for dots.
_RENAMED = (
    ("generator_predictions/output_bias", "generator_lm_head/bias"),
    (
        "discriminator_predictions/dense_1/",
        "discriminator_predictions/dense_prediction/",
    ),
    # Sequence classification: Hugging Face's own head, under its names.
    ("task_specific/{task}/classifier/dense/", "classifier/dense/"),
    ("task_specific/{task}/classifier/out_proj/", "classifier/out_proj/"),
    # Token classification: computes the same as the original's tagging head.
    ("task_specific/{task}/dense/", "classifier/"),
)


def module_shapes(
    module: str, sizes: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    if len(sizes) == 1:
        return {f"{module}/{leaf}": (*sizes,) for leaf in ("gamma", "beta")}
    return {f"{module}/kernel": (*sizes,), f"{module}/bias": (sizes[-1],)}


def to_hugging_face(name: str, task: str) -> tuple[str, bool]:
    """Returns Hugging Face's name, and whether the array is transposed."""
    for ours, theirs in _RENAMED:
        ours = ours.format(task=task)
        if name.startswith(ours):
            name = theirs + name.removeprefix(ours)
            break
    if name.endswith(TABLES):
        name += "/weight"
    module, _, leaf = name.rpartition("/")
    module = module.replace("/", ".").replace("layer_", "layer.")
    theirs = {"kernel": "weight", "gamma": "weight", "beta": "bias"}
    return f"{module}.{theirs.get(leaf, leaf)}", leaf == "kernel"


def from_hugging_face(name: str, task: str) -> tuple[str, bool]:
    """Returns our name, and whether the array is transposed."""
    name = name.replace("layer.", "layer_").replace(".", "/")
    for ours, theirs in _RENAMED:
        if name.startswith(theirs):
            name = ours.format(task=task) + name.removeprefix(theirs)
            break
    module, _, leaf = name.rpartition("/")
    if module.endswith(TABLES):
        return module, False
    if module.endswith("LayerNorm"):
        leaf = {"weight": "gamma", "bias": "beta"}.get(leaf, leaf)
    elif leaf == "weight":
        leaf = "kernel"
    return f"{module}/{leaf}", leaf == "kernel"
