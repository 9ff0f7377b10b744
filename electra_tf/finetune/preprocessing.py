"""From examples to batches: [CLS] first [SEP] second [SEP], padded.

A task makes examples, its `featurize` rows of token ids, `Features` batches.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.weights import Weights
from electra_tf.model.graph_tokenization import make_tokenizer, pack_rows
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console, seeds
from electra_tf.util.errors import UserError

_TEXTS_AT_ONCE = 4096
_MULTIPLE = 8  # in evaluation, rows are padded to a multiple of it
_BUCKETS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # row lengths

Row = Mapping[str, int | float | np.ndarray]
"""One row: "input_ids" and "segment_ids", "eid", the number of its example, and
what its head reads: name -> number, sequence of numbers, or mask of labels."""
Batch = dict[str, tf.Tensor]
"""Rows as tensors: "input_mask" and their columns, [B], [B, L] or [B, C]."""


@dataclasses.dataclass(frozen=True)
class Example:
    """An example of a task: its inputs, and its label if `is_labelled`."""

    eid: int


@dataclasses.dataclass(frozen=True)
class InputExample(Example):
    """A text or a pair of texts, of classification and regression."""

    text_a: str
    text_b: str | None = None
    label: str | float | tuple[str, ...] | None = None

    @property
    def is_labelled(self) -> bool:
        return self.label is not None


@dataclasses.dataclass(frozen=True)
class TaggedSentence(Example):
    """A sentence to tag."""

    words: tuple[str, ...]
    tags: tuple[str, ...] = ()

    @property
    def is_labelled(self) -> bool:
        return bool(self.tags)


@dataclasses.dataclass(frozen=True)
class QAExample(Example):
    """A question, and the context that may hold its answer."""

    qas_id: str
    question: str
    context: str
    words: tuple[str, ...]
    answers: tuple[str, ...] = ()
    answer_text: str = ""
    first_word: int | None = None
    last_word: int | None = None
    answer_start: int = 0
    answer_end: int | None = None
    is_impossible: bool = False

    @property
    def is_labelled(self) -> bool:
        return bool(self.answers) or self.is_impossible

    @property
    def is_found(self) -> bool:
        """True if the answer to learn stands in the context."""
        return self.first_word is not None


class TextTokenizer:
    """Splits text into the tokens of the encoder's vocabulary."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        do_lower_case: bool = True,
        strip_accents: bool = True,
    ) -> None:
        self.vocabulary = vocabulary
        self.has_warned = False
        self.in_graph = make_tokenizer(vocabulary, do_lower_case, strip_accents)

    @classmethod
    def of(cls, weights: Weights) -> Self:
        """Makes the tokenizer of an encoder."""
        if weights.vocabulary is None:
            raise UserError(f"{weights.origin} has no vocabulary.")
        return cls(weights.vocabulary, **loading.tokenizer_options(weights))

    def _blocks(self, texts: Sequence[str]) -> Iterator[tf.RaggedTensor]:
        """Yields the ids of the tokens of some texts at once."""
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            block = list(texts[start : start + _TEXTS_AT_ONCE])
            yield self.in_graph.tokenize(tf.constant(block))

    def tokenize(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of each text's tokens, int32 each."""
        ids: list[np.ndarray] = []
        for tokens in self._blocks(texts):
            ends = tokens.row_splits.numpy()[1:-1]
            ids.extend(np.split(tokens.values.numpy(), ends))
        return ids

    def rows(
        self, *columns: Sequence[str], length: int
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields the row of each text, or of each pair; see `join`."""
        num_cut = 0
        for texts in zip(*map(self._blocks, columns), strict=True):
            first, second = (*texts, None)[:2]
            packed = pack_rows(first, second, self.vocabulary, length)
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


class Features:
    """The rows of a split, and batches of them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        self.num_rows = len(rows)
        self.lengths = np.array([len(row["input_ids"]) for row in rows])
        self.length = _round_up(int(self.lengths.max(initial=0)))
        self._columns: dict[str, tf.Tensor | tf.RaggedTensor] = {}
        for name, first in rows[0].items():
            values = [row[name] for row in rows]
            is_mask = np.asarray(first).dtype == bool  # of labels, [C]
            is_sequence = np.ndim(first) and not is_mask
            array = np.concatenate(values) if is_sequence else np.array(values)
            is_float = np.issubdtype(array.dtype, np.floating)
            column = tf.constant(array, tf.float32 if is_float else tf.int32)
            if is_sequence:
                sizes = np.array([len(value) for value in values])
                column = tf.RaggedTensor.from_row_lengths(column, sizes)
            self._columns[name] = column

    def share_unknown(self, vocabulary: Vocabulary) -> float:
        """Returns the share of [UNK] among the tokens of the texts."""
        ids = self._columns["input_ids"].values.numpy()
        ids = ids[~np.isin(ids, (vocabulary.cls_id, vocabulary.sep_id))]
        return np.count_nonzero(ids == vocabulary.unk_id) / max(1, ids.size)

    def batch(self, indices: tf.Tensor, length: int | None) -> Batch:
        """Gathers rows [B], padded with zeros to a length, or the longest."""
        batch = {}
        for name, column in self._columns.items():
            part = tf.gather(column, indices)
            if isinstance(part, tf.RaggedTensor):
                if name == "input_ids":
                    batch["input_mask"] = tf.sequence_mask(
                        part.row_lengths(), length, tf.int32
                    )
                part = part.to_tensor(shape=[None, length])
            batch[name] = part
        size = indices.shape[:1]  # static for the compiler, if known
        return {
            name: tf.ensure_shape(x, size + x.shape[1:])
            for name, x in batch.items()
        }

    def order(self, num_batches: int, batch_size: int, seed: int) -> np.ndarray:
        """Returns the rows of training batches, int32 [num_batches, B].

        They are one stream: epoch after epoch, each row once in each, permuted
        by (seed, epoch). No row is dropped, and a run may start at any step.
        """
        size = num_batches * batch_size
        num_epochs = -(-size // self.num_rows)
        epochs = [
            seeds.permutation(self.num_rows, seed, epoch)
            for epoch in range(num_epochs)
        ]
        stream = np.concatenate(epochs)[:size].astype(np.int32)
        return stream.reshape(num_batches, batch_size)

    def padded_lengths(
        self, order: np.ndarray, min_batches: float = 0
    ) -> np.ndarray:
        """Returns the length to which each batch of an order is padded.

        It is one of a few, since most texts are far shorter than the longest;
        a length of fewer than `min_batches` is rounded up to the next.
        """
        lengths = self._bucket_lengths(self.lengths[order].max(1))
        for length, longer in itertools.pairwise(np.unique(lengths)):
            in_bucket = lengths == length
            if in_bucket.sum() < min_batches:
                lengths[in_bucket] = longer
        return lengths

    def dataset(self, order: np.ndarray, length: int) -> tf.data.Dataset:
        """Makes the batches of an order, [n, B]."""
        return (
            tf.data.Dataset.from_tensor_slices(order)
            .map(
                lambda indices: self.batch(indices, length),
                num_parallel_calls=tf.data.AUTOTUNE,
            )
            .prefetch(tf.data.AUTOTUNE)
        )

    def batches(
        self, batch_size: int, *, multiple: int = 1, uses_buckets: bool = False
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """Yields batches of all rows, rows of similar length together."""
        order = np.argsort(self.lengths, kind="stable")
        for start in range(0, self.num_rows, batch_size):
            indices = order[start : start + batch_size]
            longest = self.lengths[indices].max()
            length, size = _round_up(int(longest)), len(indices)
            if uses_buckets:
                length = int(self._bucket_lengths(longest))
                size = min(batch_size, self.num_rows)
            indices = np.resize(indices, _round_up(size, multiple))
            yield indices, self.batch(tf.constant(indices), length)

    def _bucket_lengths(self, lengths: np.ndarray) -> np.ndarray:
        """Rounds row lengths up to the few that are compiled."""
        choices = [n for n in _BUCKETS if n < self.length] + [self.length]
        return np.array(choices)[np.searchsorted(choices, lengths)]


def _round_up(length: int, multiple: int = _MULTIPLE) -> int:
    return -(-length // multiple) * multiple
