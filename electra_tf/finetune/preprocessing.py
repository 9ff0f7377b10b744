"""From text to rows of token ids: [CLS] first [SEP] second [SEP]."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from electra_tf.checkpoint.weights import Weights
from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.tokenization import Vocabulary

_TEXTS_AT_ONCE = 4096


class TextTokenizer:
    """Splits text into the tokens of the encoder's vocabulary.

    Args:
      vocabulary: of the encoder.
      do_lower_case: whether to lower-case.
      strip_accents: whether to drop accents; only when lower-casing.

    Attributes:
      in_graph: the same inside TensorFlow.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        do_lower_case: bool = True,
        strip_accents: bool = True,
    ) -> None:
        self.vocabulary = vocabulary
        self.do_lower_case = do_lower_case
        self.strip_accents = strip_accents
        self.in_graph = make_tokenizer(vocabulary, do_lower_case, strip_accents)

    @classmethod
    def of(cls, weights: Weights) -> Self:
        """Makes the tokenizer of an encoder.

        Args:
          weights: with a vocabulary, and what to do to case and accents.
        """
        switches = (weights.do_lower_case, weights.strip_accents)
        return cls(weights.vocabulary, *switches)

    def tokenize(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of each text's tokens, int32 each."""
        ids: list[np.ndarray] = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            part = tf.constant(list(texts[start : start + _TEXTS_AT_ONCE]))
            tokens = self.tokenize_tensor(part)
            ends = tokens.row_splits.numpy()[1:-1]
            ids.extend(np.split(tokens.values.numpy(), ends))
        return ids

    def tokenize_tensor(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of each text's tokens, int32 [B, (n)]; in a graph.

        Args:
          texts: string [B].
        """
        return self.in_graph.tokenize(texts)


def pack(
    vocabulary: Vocabulary,
    first: np.ndarray,
    second: np.ndarray | None = None,
    *,
    length: int,
) -> dict[str, np.ndarray]:
    """Makes a row of one or two texts that fits: see `join`.

    `graph_tokenization.pack_rows` does it in a graph.

    Of a pair, the longer text is cut; see `truncate_pair`.

    Args:
      vocabulary: of the tokens.
      first: int32 [n], ids.
      second: int32 [m], ids; None for a single text.
      length: tokens of the longest row.
    """
    if second is None:
        return join(vocabulary, first[: length - 2])
    return join(vocabulary, *truncate_pair(first, second, length - 3))


def join(
    vocabulary: Vocabulary, first: np.ndarray, second: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Makes a row of one or two texts: [CLS] first [SEP] second [SEP].

    Args:
      vocabulary: of the tokens.
      first: int32 [n], ids.
      second: int32 [m], ids; None for a single text.

    Returns:
      "input_ids" and "segment_ids", int32 each, 1 in the second segment.
    """
    cls, sep = [vocabulary.cls_id], [vocabulary.sep_id]
    parts = [np.concatenate([cls, first, sep])]
    if second is not None:
        parts.append(np.concatenate([second, sep]))
    sizes = [len(part) for part in parts]
    return {
        "input_ids": np.concatenate(parts).astype(np.int32),
        "segment_ids": np.repeat(np.arange(len(parts), dtype=np.int32), sizes),
    }


def truncate_pair(
    first: np.ndarray, second: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts the end of the longer text, token by token, until both fit.

    Of two texts as long as each other the second is cut.

    Args:
      first: int32 [n], ids.
      second: int32 [m], ids.
      size: tokens of both together.
    """
    n, m = len(first), len(second)
    if n + m <= size:
        return first, second
    half = size // 2
    if m <= half:
        n = size - m
    elif n <= size - half:
        m = size - n
    else:
        n, m = size - half, half
    return first[:n], second[:m]
