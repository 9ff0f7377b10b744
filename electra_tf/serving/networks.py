"""An encoder with a head as two SavedModels, of text and of ids.

    <directory>/<network>/text/1    strings in, tokenized in the graph
    <directory>/<network>/ids/1     ids in

`text` needs the operations of tensorflow_text: import it before loading. `ids`
has TensorFlow's own only and runs in programs that cannot load others.

Each has two signatures, "serving_default" and "encode"; the latter returns

    sequence_output float32 [B, L, H], pooled_output float32 [B, H]

Those of `ids` read `input_ids`, `input_mask` and `segment_ids`, int32 [B, L],
with L up to the number of position embeddings. Those of `text` read `text`,
string [B], cut it to the reader's `max_seq_length`, pad to the longest row,
and return `input_ids` and `input_mask`, int32 [B, L], as well;
"serving_default" also `tokens`, string [B, L], "" on padding.
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from electra_tf.model.modeling import BertModel
from electra_tf.model.text_reader import Ids, TextReader
from electra_tf.serving import saved_models
from electra_tf.serving.saved_models import Endpoints, Outputs

NUM_TOP_TOKENS = 10

_TEXT = [tf.TensorSpec([None], tf.string, "text")]
_IDS = [
    tf.TensorSpec([None, None], tf.int32, name)
    for name in ("input_ids", "input_mask", "segment_ids")
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """A network to export.

    Attributes:
      encoder: reads ids.
      layers: all that it consists of, to count its weights.
      reader: reads text.
      predict: ids -> what "serving_default" of ids returns.
      predict_for_text: ids -> the same of text.
    """

    encoder: BertModel
    layers: Sequence[keras.layers.Layer]
    reader: TextReader
    predict: Callable[[Ids], Outputs]
    predict_for_text: Callable[[Ids], Outputs]

    @property
    def num_weights(self) -> int:
        """Weights of encoder and head, each once."""
        return sum(
            math.prod(variable.shape)
            for layer in self.layers
            for variable in layer.weights
        )


def write(network: Network, directory: pathlib.Path) -> list[pathlib.Path]:
    """Writes the two SavedModels of a network.

    An older SavedModel is replaced only by one that is complete.

    Args:
      network: with the weights to export.
      directory: where they go, each into a directory of its own.

    Returns:
      The directory of each SavedModel.

    Raises:
      UserError: if `directory` cannot be written to.
    """
    text, ids = (directory / kind / "1" for kind in ("text", "ids"))
    saved_models.write(
        text, _text_endpoints(network), _TEXT, network.reader.assets
    )
    saved_models.write(ids, _ids_endpoints(network), _IDS)
    return [text, ids]


def top_tokens(
    logits: tf.Tensor, is_shown: tf.Tensor, tokens: Sequence[str]
) -> Outputs:
    """Returns the likeliest tokens at some positions.

    Args:
      logits: float32 [M, V].
      is_shown: bool [B, L], True at M positions.
      tokens: the V tokens.

    Returns:
      "top_tokens", string [B, L, 10], and "top_probabilities", float32
      [B, L, 10], in descending order; "" and 0 at other positions.
    """
    num_top = min(NUM_TOP_TOKENS, len(tokens))
    top = tf.math.top_k(tf.nn.softmax(logits), num_top)  # [M, 10]
    shape = tf.concat([tf.shape(is_shown), [num_top]], 0)
    indices = tf.cast(tf.where(is_shown), tf.int32)  # [M, 2]
    return {
        "top_tokens": tf.scatter_nd(
            indices, tf.gather(tokens, top.indices), shape
        ),
        "top_probabilities": tf.scatter_nd(indices, top.values, shape),
    }


def _encode(network: Network, ids: Ids) -> Outputs:
    output = network.encoder(**ids)
    return {
        "sequence_output": output.sequence_output,
        "pooled_output": output.pooled_output,
    }


def _text_endpoints(network: Network) -> Endpoints:
    reader = network.reader

    def shown(ids: Ids) -> Outputs:
        return {name: ids[name] for name in ("input_ids", "input_mask")}

    def serve(text: tf.Tensor) -> Outputs:
        ids = reader.read(text)
        tokens = {"tokens": reader.tokens(ids)}
        return tokens | shown(ids) | network.predict_for_text(ids)

    def encode(text: tf.Tensor) -> Outputs:
        ids = reader.read(text)
        return shown(ids) | _encode(network, ids)

    return {"serving_default": serve, "encode": encode}


def _ids_endpoints(network: Network) -> Endpoints:
    def of_ids(answer: Callable[[Ids], Outputs]) -> Callable[..., Outputs]:
        def function(
            input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
        ) -> Outputs:
            ids = {"input_ids": input_ids, "input_mask": input_mask}
            return answer(ids | {"segment_ids": segment_ids})

        return function

    return {
        "serving_default": of_ids(network.predict),
        "encode": of_ids(functools.partial(_encode, network)),
    }
