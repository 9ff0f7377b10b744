"""SavedModels of any model, of text and of ids.

    <directory>/text/1    strings in, tokenized in the graph
    <directory>/ids/1     ids in

`text` needs the operations of tensorflow_text: import it before loading. `ids`
has only TensorFlow's own and runs in programs that cannot load others. Each
has the signature "serving_default", and may have others. Signatures of text
read string [B]: `text`, for pairs also `text_b`, for question answering
`question` and `context`. Signatures of ids read `input_ids`, `input_mask` and
`segment_ids`, int32 [B, L].

Weights are stored as constants: TensorFlow repacks a constant for matrix
multiplication once, a variable at every call. Weights of more than 1.5 GiB stay
variables, as a graph holds 2 GiB.

Letters in shapes: B rows, L tokens in a row, M masks, V vocabulary.
"""

import functools
import os
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf
from etils import epath

from electra_tf.model.text_reader import Ids

NUM_TOP_TOKENS = 10
MAX_CONSTANT_BYTES = 3 * 2**29
BLOCK_SIZE = 32
IDS = [
    tf.TensorSpec([None, None], tf.int32, name)
    for name in ("input_ids", "input_mask", "segment_ids")
]

Outputs = dict[str, tf.Tensor]
Endpoints = Mapping[str, Callable[..., Outputs]]
"""Name of a signature -> what it computes."""


def export(
    directory: str | os.PathLike[str],
    of_text: Endpoints,
    of_ids: Mapping[str, Callable[[Ids], Outputs]],
    *,
    text_names: Sequence[str] = ("text",),
    assets: Sequence[tf.Module] = (),
    layers: Sequence[keras.layers.Layer] = (),
) -> list[epath.Path]:
    """Writes the two SavedModels of a model, whose weights are `layers`."""
    text, ids = (epath.Path(directory) / kind / "1" for kind in ("text", "ids"))
    strings = [tf.TensorSpec([None], tf.string, name) for name in text_names]
    of_tensors = {name: _of_tensors(f) for name, f in of_ids.items()}
    write(text, with_constants(of_text, layers), strings, assets)
    write(ids, with_constants(of_tensors, layers), IDS)
    return [text, ids]


def _of_tensors(answer: Callable[[Ids], Outputs]) -> Callable[..., Outputs]:
    names = [spec.name for spec in IDS]
    return lambda *ids: answer(dict(zip(names, ids, strict=True)))


def write(
    path: epath.Path,
    endpoints: Endpoints,
    spec: Sequence[tf.TensorSpec],
    assets: Sequence[tf.Module] = (),
) -> None:
    """Writes a SavedModel, then moves it into place, over any older one."""
    traced = {
        name: tf.function(
            function, input_signature=list(spec), autograph=False
        ).get_concrete_function()
        for name, function in endpoints.items()
    }
    module = tf.Module()
    module.assets = list(assets)
    module.weights = [v for f in traced.values() for v in f.variables]
    for name, function in traced.items():
        setattr(module, name, function)
    path = epath.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"tmp-{path.name}")
    if unfinished.exists():  # of a killed export
        unfinished.rmtree()
    tf.saved_model.save(module, str(unfinished), signatures=traced)
    if path.exists():
        path.rmtree()
    unfinished.rename(path)


def with_constants(
    endpoints: Endpoints, layers: Sequence[keras.layers.Layer]
) -> Endpoints:
    """Returns the endpoints with constants in place of the layers' weights."""
    variables = {id(v): v for layer in layers for v in layer.weights}
    variables = list(variables.values())
    arrays = [variable.numpy() for variable in variables]
    if sum(array.nbytes for array in arrays) > MAX_CONSTANT_BYTES:
        return endpoints
    constants = tf.function(
        lambda: [tf.constant(array) for array in arrays], autograph=False
    )

    def frozen(endpoint: Callable[..., Outputs]) -> Callable[..., Outputs]:
        @functools.wraps(endpoint)
        def function(*arguments: tf.Tensor) -> Outputs:
            values = zip(variables, constants(), strict=True)
            with keras.StatelessScope(list(values)):
                return endpoint(*arguments)

        return function

    return {name: frozen(endpoint) for name, endpoint in endpoints.items()}


def top_tokens(
    logits: tf.Tensor, is_selected: tf.Tensor, tokens: Sequence[str]
) -> Outputs:
    """Returns the likeliest tokens at some positions.

    Shapes: logits [M, V], is_selected [B, L]; returns [B, L, 10].
    """
    num_top = min(NUM_TOP_TOKENS, len(tokens))
    probabilities = tf.nn.softmax(logits)[:, : len(tokens)]
    top = tf.math.top_k(probabilities, num_top)  # [M, 10]
    shape = tf.concat([tf.shape(is_selected), [num_top]], 0)
    indices = tf.cast(tf.where(is_selected), tf.int32)  # [M, 2]
    return {
        "top_tokens": tf.scatter_nd(
            indices, tf.gather(tokens, top.indices), shape
        ),
        "top_probabilities": tf.scatter_nd(indices, top.values, shape),
    }


def in_blocks(
    count: tf.Tensor,
    compute: Callable[[slice], Sequence[tf.Tensor]],
    specs: Sequence[tf.TensorSpec],
) -> list[tf.Tensor]:
    """Computes tensors of all rows, `BLOCK_SIZE` rows at a time."""

    def step(start: tf.Tensor, *done: tf.Tensor) -> tuple:
        part = compute(slice(start, start + BLOCK_SIZE))
        joined = [tf.concat(x, 0) for x in zip(done, part, strict=True)]
        return start + BLOCK_SIZE, *joined

    nothing = [tf.zeros([0, *spec.shape[1:]], spec.dtype) for spec in specs]
    _, *results = tf.while_loop(
        lambda start, *_: start < count,
        step,
        [tf.constant(0), *nothing],
        shape_invariants=[tf.TensorShape([]), *(x.shape for x in specs)],
        parallel_iterations=1,
    )
    return results
