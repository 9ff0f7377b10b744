"""The weights of the golden networks, as arrays with slots."""

import dataclasses

import golden_arrays
import numpy as np

from electra_tf.checkpoint import architecture, weights

DIRECTORY = golden_arrays.HERE / "golden/model"


def read(name, **fields):
    arrays = dict(np.load(DIRECTORY / f"{name}_vars.npz"))
    found = architecture.infer({n: a.shape for n, a in arrays.items()})
    loaded = weights.Weights(
        origin=name, arrays=arrays, architecture=found, **fields
    )
    return weights.with_slots(loaded)


def check(loaded):
    """Checks that the arrays have the shapes of the architecture."""
    shapes = {name: array.shape for name, array in loaded.arrays.items()}
    assert architecture.infer(shapes).shapes() == loaded.architecture.shapes()


def disentangled():
    """Returns "small_like" with gradient-disentangled embeddings."""
    shared, rng = read("small_like"), np.random.default_rng(0)
    arrays = {}
    for name, array in shared.arrays.items():
        head, _, tail = name.partition("electra/embeddings/")
        if head or not tail:
            arrays[name] = array
            continue
        arrays[f"generator/embeddings/{tail}"] = array
        table, *slot = tail.split("/")
        if table != "LayerNorm":
            tail = "/".join([f"{table}_difference", *slot])
        random = rng.normal(size=array.shape).astype(np.float32)
        arrays[f"electra/embeddings/{tail}"] = random
    found = architecture.infer({n: a.shape for n, a in arrays.items()})
    return dataclasses.replace(shared, arrays=arrays, architecture=found)
