"""SavedModels of any kind of model, of text and of ids.

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

Letters in shapes: B rows, L tokens in a row, H hidden, V vocabulary.
"""

import contextlib
import dataclasses
import functools
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from electra_tf.model.modeling import BertModel
from electra_tf.model.text_reader import Ids, TextReader
from electra_tf.serving import sentence_scores, warmup, weight_storage
from electra_tf.serving.sentence_scores import LogProbs
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError
from electra_tf.util.locks import OUTPUT_LOCK, lock_directory

NUM_TOP_TOKENS = 10
MAX_CONSTANT_BYTES = 3 * 2**29

_IDS = [
    tf.TensorSpec([None, None], tf.int32, name)
    for name in ("input_ids", "input_mask", "segment_ids")
]
_SCRATCH = "tmp-"
_NEW, _OLD = "new", "old"
_GRAPH = "saved_model.pb"

Outputs = dict[str, tf.Tensor]
Endpoints = Mapping[str, Callable[..., Outputs]]
"""Name of a signature -> what it computes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signatures:
    """Signatures of the two SavedModels of a model, by their names.

    Shapes: of_text [B].
    """

    of_text: Endpoints
    of_ids: Endpoints
    text_names: Sequence[str] = ("text",)
    assets: Sequence[tf.Module] = ()
    layers: Sequence[keras.layers.Layer] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """An encoder with a head, which also has the signature "encode"."""

    encoder: BertModel
    layers: Sequence[keras.layers.Layer]
    reader: TextReader
    predict: Callable[[Ids], Outputs]
    predict_for_text: Callable[[Ids], Outputs] | None = None
    log_probs: LogProbs | None = None
    scoring_layers: Sequence[keras.layers.Layer] = ()

    @property
    def num_weights(self) -> int:
        """Number of weights in encoder and head."""
        return sum(layer.count_params() for layer in self.layers)

    @property
    def signatures(self) -> Signatures:
        """The signatures."""
        of_text = {
            "serving_default": self._predict_text,
            "encode": self._encode_text,
        }
        if self.log_probs:
            of_text["score"] = self._score
        return Signatures(
            of_text=of_text,
            of_ids={"serving_default": self.predict, "encode": self._encode},
            assets=self.reader.assets,
            layers=[*self.layers, *self.scoring_layers],
        )

    def _predict_text(self, text: tf.Tensor) -> Outputs:
        ids = self.reader.read(text)
        tokens = {"tokens": self.reader.tokens(ids)}
        predict = self.predict_for_text or self.predict
        return tokens | _echoed_inputs(ids) | predict(ids)

    def _encode_text(self, text: tf.Tensor) -> Outputs:
        ids = self.reader.read(text)
        return _echoed_inputs(ids) | self._encode(ids)

    def _score(self, text: tf.Tensor) -> Outputs:
        return sentence_scores.score(text, self.reader, self.log_probs)

    def _encode(self, ids: Ids) -> Outputs:
        return states(self.encoder, ids)


def export(
    signatures: Signatures,
    directory: storage.Path,
    *,
    precision: str = "float32",
) -> list[storage.Path]:
    """Writes the two SavedModels of a model, or only that of texts."""
    text, ids = (directory / kind / "1" for kind in ("text", "ids"))
    of_ids = {name: _of_ids(f) for name, f in signatures.of_ids.items()}
    of_text, of_ids = (
        with_constants(endpoints, signatures.layers, precision)
        for endpoints in (signatures.of_text, of_ids)
    )
    write(
        text,
        of_text,
        [tf.TensorSpec([None], tf.string, x) for x in signatures.text_names],
        signatures.assets,
    )
    if not of_ids:
        return [text]
    write(ids, of_ids, _IDS)
    return [text, ids]


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


def write(
    path: storage.Path,
    endpoints: Endpoints,
    spec: Sequence[tf.TensorSpec],
    assets: Sequence[tf.Module] = (),
) -> None:
    """Writes a SavedModel, then moves it into place, over any older one."""
    directory = path.parent
    files.ensure_writable(directory)
    with (
        lock_directory(directory, OUTPUT_LOCK, "export to another directory"),
        _scratch(path) as scratch,
    ):
        _save(scratch / _NEW, endpoints, spec, assets)
        warmup.write(scratch / _NEW, endpoints, spec)
        _replace(path, scratch)


def _save(
    path: pathlib.Path,
    endpoints: Endpoints,
    spec: Sequence[tf.TensorSpec],
    assets: Sequence[tf.Module],
) -> None:
    """Saves the endpoints as signatures and as attributes."""
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
    tf.saved_model.save(module, str(path), signatures=traced)


def states(encoder: BertModel, ids: Ids) -> Outputs:
    """Returns the outputs of the signature "encode", see `Network`."""
    output = encoder(**ids)
    return {
        "sequence_output": output.sequence_output,
        "pooled_output": output.pooled_output,
    }


def _of_ids(answer: Callable[[Ids], Outputs]) -> Callable[..., Outputs]:
    """Returns a function whose arguments are those of the signature."""

    def function(
        input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> Outputs:
        ids = {"input_ids": input_ids, "input_mask": input_mask}
        return answer(ids | {"segment_ids": segment_ids})

    return function


def with_constants(
    endpoints: Endpoints,
    layers: Sequence[keras.layers.Layer],
    precision: str = "float32",
) -> Endpoints:
    """Returns the endpoints with constants in place of the layers' weights."""
    variables = {id(v): v for layer in layers for v in layer.weights}
    variables = list(variables.values())
    arrays = [weight_storage.stored(v, precision) for v in variables]
    size = sum(array.nbytes for parts in arrays for array in parts)
    if size > MAX_CONSTANT_BYTES:
        if precision == "float32":
            return endpoints
        raise UserError(
            f"Weights in {precision} must be at most {MAX_CONSTANT_BYTES:,} "
            f"bytes, as they are constants of the graph. Received: {size:,} "
            "bytes. Set --precision=float32, which may be larger."
        )
    constants = tf.function(
        lambda: tf.nest.map_structure(tf.constant, arrays), autograph=False
    )

    def frozen(endpoint: Callable[..., Outputs]) -> Callable[..., Outputs]:
        @functools.wraps(endpoint)
        def function(*arguments: tf.Tensor) -> Outputs:
            with weight_storage.scope(variables, constants()):
                return endpoint(*arguments)

        return function

    return {name: frozen(endpoint) for name, endpoint in endpoints.items()}


def _echoed_inputs(ids: Ids) -> Outputs:
    return {name: ids[name] for name in ("input_ids", "input_mask")}


@contextlib.contextmanager
def _scratch(destination: storage.Path) -> Iterator[pathlib.Path]:
    """Makes a directory to write in; removes those that dead runs left."""
    directory = destination.parent
    if storage.is_remote(directory):
        with tempfile.TemporaryDirectory(prefix=_SCRATCH) as path:
            yield pathlib.Path(path)
        return
    for left in directory.glob(f"{_SCRATCH}*"):
        if left.is_dir() and {p.name for p in left.iterdir()} <= {_NEW, _OLD}:
            if (left / _OLD).exists() and not destination.exists():
                (left / _OLD).rename(destination)
            shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=directory) as path:
        yield pathlib.Path(path)


def _replace(path: storage.Path, scratch: pathlib.Path) -> None:
    """Moves the new SavedModel into place; if that fails, the old one stays."""
    if storage.is_remote(path):
        _upload(scratch / _NEW, path)
        return
    old = scratch / _OLD
    try:
        if path.exists():
            path.rename(old)
        (scratch / _NEW).rename(path)
    finally:
        if old.exists() and not path.exists():
            old.rename(path)


def _upload(source: pathlib.Path, path: storage.Path) -> None:
    """Copies a SavedModel to a store, which has a whole one or none
    meanwhile."""
    for old in (path / _GRAPH, path):
        if storage.exists(old):
            storage.remove(old)
    for file in sorted(source.rglob("*"), key=lambda x: x.name == _GRAPH):
        if file.is_file():
            place = path / file.relative_to(source)
            storage.make_directories(place.parent)
            storage.upload(str(file), os.fspath(place))
