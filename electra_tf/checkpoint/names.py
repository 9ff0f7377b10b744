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
_HEADS = (
    "discriminator_predictions/dense",
    "discriminator_predictions/dense_1",
    "generator_predictions/dense",
    "generator_predictions/LayerNorm",
    # Token classification: computes the same as the original's tagging head.
    "task_specific/{task}/dense",
    # Sequence classification: Hugging Face's own head, under its names.
    "task_specific/{task}/classifier/dense",
    "task_specific/{task}/classifier/out_proj",
)
_RENAMED = {
    "discriminator_predictions/dense_1": (
        "discriminator_predictions.dense_prediction"
    ),
    "task_specific/{task}/dense": "classifier",
    "task_specific/{task}/classifier/dense": "classifier.dense",
    "task_specific/{task}/classifier/out_proj": "classifier.out_proj",
}
_LINEAR = {"kernel": "weight", "bias": "bias"}
_NORM = {"gamma": "weight", "beta": "bias"}


def module_shapes(
    module: str, sizes: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each weight of a module."""
    if len(sizes) == 1:
        return {f"{module}/{leaf}": (*sizes,) for leaf in _NORM}
    return {f"{module}/kernel": (*sizes,), f"{module}/bias": (sizes[-1],)}


def table(num_layers: int, task: str = "task") -> dict[str, tuple[str, bool]]:
    """Returns our name -> Hugging Face's and whether it is transposed."""
    rows = {
        f"electra/embeddings/{x}": (f"electra.embeddings.{x}.weight", False)
        for x in TABLES
    }
    rows["generator_predictions/output_bias"] = (
        "generator_lm_head.bias",
        False,
    )
    modules = [EMBEDDINGS_NORM[0], EMBEDDINGS_PROJECT[0]]
    for i in range(num_layers):
        modules += [module.format(i=i) for module, _ in LAYER]
    for module in (*(f"electra/{x}" for x in modules), *_HEADS):
        dotted = module.replace("/", ".").replace("layer_", "layer.")
        theirs, ours = _RENAMED.get(module, dotted), module.format(task=task)
        leaves = _NORM if module.endswith("LayerNorm") else _LINEAR
        for ours_leaf, leaf in leaves.items():
            is_transposed = ours_leaf == "kernel"
            rows[f"{ours}/{ours_leaf}"] = (f"{theirs}.{leaf}", is_transposed)
    return rows
