"""From text to rows of token ids: [CLS] first [SEP] second [SEP]."""

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.weights import Weights
from electra_tf.model.graph_tokenization import make_tokenizer, pack_rows
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console

_TEXTS_AT_ONCE = 4096


class TextTokenizer:
    """Splits text into the tokens of the encoder's vocabulary."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        do_lower_case: bool = True,
        strip_accents: bool = True,
    ) -> None:
        self.vocabulary = vocabulary
        self.do_lower_case = do_lower_case
        self.strip_accents = strip_accents
        self.has_warned = False
        self.in_graph = make_tokenizer(vocabulary, do_lower_case, strip_accents)

    @classmethod
    def of(cls, weights: Weights) -> Self:
        """Makes the tokenizer of an encoder."""
        return cls(weights.vocabulary, **loading.tokenizer_options(weights))

    def tokenize(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of each text's tokens, int32 each."""
        ids: list[np.ndarray] = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            part = tf.constant(list(texts[start : start + _TEXTS_AT_ONCE]))
            tokens = self.in_graph.tokenize(part)
            ends = tokens.row_splits.numpy()[1:-1]
            ids.extend(np.split(tokens.values.numpy(), ends))
        return ids

    def rows(
        self, *columns: Sequence[str], length: int
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields the row of each text, or of each pair; see `join`."""
        num_cut = 0
        for start in range(0, len(columns[0]), _TEXTS_AT_ONCE):
            part = slice(start, start + _TEXTS_AT_ONCE)
            texts = [
                self.in_graph.tokenize(tf.constant(list(column[part])))
                for column in columns
            ]
            second = texts[1] if len(texts) > 1 else None
            packed = pack_rows(texts[0], second, self.vocabulary, length)
            sizes = tf.reduce_sum(packed.pop("input_mask"), 1).numpy()
            num_tokens = sum(x.row_lengths() for x in texts) + 1 + len(texts)
            num_cut += int(tf.math.count_nonzero(num_tokens > length))
            rows = {name: column.numpy() for name, column in packed.items()}
            for number, size in enumerate(sizes):
                yield {name: x[number, :size] for name, x in rows.items()}
        if num_cut and not self.has_warned:
            self.has_warned = True
            console.warn(
                f"{num_cut:,} of {len(columns[0]):,} texts are longer than "
                f"max_seq_length={length} tokens and were cut."
            )


def join(
    vocabulary: Vocabulary, first: np.ndarray, second: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Makes a row of one or two texts: [CLS] first [SEP] second [SEP]."""
    cls, sep = [vocabulary.cls_id], [vocabulary.sep_id]
    parts = [np.concatenate([cls, first, sep])]
    if second is not None:
        parts.append(np.concatenate([second, sep]))
    sizes = [len(part) for part in parts]
    return {
        "input_ids": np.concatenate(parts).astype(np.int32),
        "segment_ids": np.repeat(np.arange(len(parts), dtype=np.int32), sizes),
    }
