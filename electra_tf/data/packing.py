"""From documents to records: tokenize, cut into examples, fill rows, write.

`carry` builds data sets by default; `ExampleBuilder` follows the original's
rules, for --packing=original; `fill_rows` lets examples share rows, for
--packing=packed.
"""

import collections
import functools
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import records
from electra_tf.data.records import HELD_OUT, SPLITS, TRAIN
from electra_tf.data.selection import Document
from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.console import num_cores

MIN_LENGTH = 5
SHORT_SHARE = 0.05
ONE_SEGMENT_SHARE = 0.1
MAX_EXAMPLES = 127  # in a row: larger numbers take two bytes in a record
_NO_LIMIT = 100_000  # the original's "long enough for one segment"

BATCH_CHARACTERS = 2**20  # text that is tokenized at once
MAX_THREADS = 8
ROWS_AT_ONCE = 1024  # rows that are packed and encoded together

Example = tuple[Sequence[int], Sequence[int]]
"""The ids of the first and the second segment, which may be empty."""
Tokenized = tuple[Document, np.ndarray, list[int]]
"""A document, its ids, and the number of ids in each line."""


def batches(
    items: Iterable,
    max_items: float = math.inf,
    *,
    size: Callable[[Any], int] = lambda item: 0,
    enough: float = math.inf,
) -> Iterator[list]:
    batch, total = [], 0
    for item in items:
        batch.append(item)
        total += size(item)
        if len(batch) >= max_items or total >= enough:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def num_tokens(example: Example) -> int:
    """Returns the tokens of an example, [CLS] and one or two [SEP] included."""
    first, second = example
    return len(first) + len(second) + (3 if len(second) else 2)


def carry(
    ids: np.ndarray,
    line_lengths: Sequence[int],
    max_seq_length: int,
    rng: random.Random,
) -> list[Example]:
    """Cuts a document into examples; text that does not fit starts the next.

    Differs: the original drops text that does not fit, up to a third of it.
    It lets a short line that follows a long one return to the first segment,
    out of order; a single line that fills an example leaves no second segment;
    a short target does not shorten an example whose last line is long. Here
    the text stays in order, such a line is cut, and no target is exceeded.
    """
    ends = [end for end in itertools.accumulate(line_lengths) if end]
    examples: list[Example] = []
    line = start = 0
    while start < len(ids):
        target = _draw_target(max_seq_length, rng)
        while ends[line] <= start:
            line += 1
        split, end = _cut(ends, line, start, target, rng)
        examples.append((ids[start:split], ids[split:end]))
        start = end
    return examples


def _draw_target(max_seq_length: int, rng: random.Random) -> int:
    if rng.random() < SHORT_SHARE:
        return rng.randint(MIN_LENGTH, max_seq_length)
    return max_seq_length


def _cut(
    ends: list[int], line: int, start: int, target: int, rng: random.Random
) -> tuple[int, int]:
    """Returns where the segments of one example end."""
    total = ends[-1]
    if rng.random() < ONE_SEGMENT_SHARE:
        end = min(total, start + target - 2)
        return end, end
    first_target = start + (target - 3) // 2
    room = start + target - 3
    split = ends[line]  # the first line joins, whatever its length
    for end in itertools.islice(ends, line + 1, None):
        joins = end < first_target or (
            split < first_target and rng.random() < 0.5
        )
        if not joins:
            break
        split = end
    if split >= room:
        split = first_target
    return split, min(total, room)


class ExampleBuilder:
    """Packs documents into examples as the original does.

    Source: build_pretraining_dataset.py, `ExampleBuilder`.
    """

    def __init__(self, max_seq_length: int, rng: random.Random) -> None:
        self._max_seq_length = max_seq_length
        self._rng = rng
        self._target = max_seq_length

    def pack(self, lines: Iterable[list[int]]) -> Iterator[Example]:
        pending, size = [], 0
        for ids in filter(None, lines):
            pending.append(ids)
            size += len(ids)
            if size >= self._target:  # without [CLS] and [SEP]
                yield self._create_example(pending)
                pending, size = [], 0
        if pending:
            yield self._create_example(pending)

    def _create_example(self, lines: list[list[int]]) -> Example:
        """Creates an example; drops the tokens that do not fit."""
        if self._rng.random() < ONE_SEGMENT_SHARE:
            first_target = _NO_LIMIT
        else:
            first_target = (self._target - 3) // 2
        first: list[int] = []
        second: list[int] = []
        for line in lines:
            # A line that reaches the target joins with probability 1/2.
            joins = (
                not first
                or len(first) + len(line) < first_target
                or (
                    not second
                    and len(first) < first_target
                    and self._rng.random() < 0.5
                )
            )
            (first if joins else second).extend(line)
        self._target = _draw_target(self._max_seq_length, self._rng)
        first = first[: self._max_seq_length - 2]
        room = max(0, self._max_seq_length - len(first) - 3)
        return first, second[:room]


def fill_rows(sizes: Sequence[int], max_seq_length: int) -> list[list[int]]:
    """Distributes examples over rows: best fit, the largest first."""
    rows: list[list[int]] = []
    rows_by_free: list[list[list[int]]] = [
        [] for _ in range(max_seq_length + 1)
    ]
    free_sizes = 0  # bit n is set if some row has room for exactly n tokens
    for example in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        size = sizes[example]
        if large_enough := free_sizes >> size:
            lowest_bit = large_enough & -large_enough
            free = size + lowest_bit.bit_length() - 1
            row = rows_by_free[free].pop()
            if not rows_by_free[free]:
                free_sizes ^= 1 << free
        else:
            free, row = max_seq_length, []
            rows.append(row)
        row.append(example)
        if len(row) < MAX_EXAMPLES:
            rows_by_free[free - size].append(row)
            free_sizes |= 1 << free - size
    return sorted(map(sorted, rows))


def rows_of(
    examples: Sequence[Example], max_seq_length: int, *, is_packed: bool
) -> list[list[Example]]:
    if not is_packed:
        return [[example] for example in examples]
    rows = fill_rows([*map(num_tokens, examples)], max_seq_length)
    return [[examples[number] for number in row] for row in rows]


class Packer:
    """Packs documents into the records of one data set, and counts them."""

    def __init__(
        self,
        config: CorpusConfig,
        vocabulary: Vocabulary,
        writers: Mapping[str, tf.io.TFRecordWriter],
    ) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        # Of the words and pieces in training records, [V].
        self.unigrams = np.zeros(vocabulary.size, np.int64)
        self._config = config
        self._vocabulary = vocabulary
        self._writers = writers
        length, seed = config.max_seq_length, config.data_seed
        self._original = {
            x: ExampleBuilder(length, random.Random(seed)) for x in SPLITS
        }
        # Split -> examples that are not written yet, and their tokens.
        self._examples: dict[str, list[Example]] = {x: [] for x in SPLITS}
        self._num_tokens = dict.fromkeys(SPLITS, 0)

    def add(
        self, document: Document, ids: np.ndarray, line_lengths: list[int]
    ) -> None:
        """Packs a document; about `ROWS_AT_ONCE` rows are written at a time."""
        split, length = document.split, self._config.max_seq_length
        if self._config.packing == "original":
            lines = np.split(ids, np.cumsum(line_lengths)[:-1])
            lines = (line.tolist() for line in lines)
            examples = list(self._original[split].pack(lines))
        else:
            rng = random.Random(document.key)
            examples = carry(ids, line_lengths, length, rng)
        self._examples[split] += examples
        self._num_tokens[split] += sum(map(num_tokens, examples))
        self.counts["tokens_read"] += len(ids)
        self.counts["held_out_documents"] += split == HELD_OUT
        num_rows = len(self._examples[split])
        if self._config.is_packed:  # a lower bound
            num_rows = self._num_tokens[split] // length
        if num_rows >= ROWS_AT_ONCE:
            self._write(split)

    def flush(self) -> None:
        for split in SPLITS:
            self._write(split)

    def _write(self, split: str) -> None:
        examples, self._examples[split] = self._examples[split], []
        self._num_tokens[split] = 0
        if not examples:
            return
        ids = np.concatenate([*itertools.chain(*examples)]).astype(np.int64)
        length = self._config.max_seq_length
        rows = rows_of(examples, length, is_packed=self._config.is_packed)
        features = records.layout(rows, length, self._vocabulary)
        if split == TRAIN:
            self.unigrams += np.bincount(ids, minlength=self._vocabulary.size)
        self.counts.update(
            {
                split: len(rows),
                "tokens_kept": len(ids),
                "examples": len(examples),
                "slots": features.input_mask.size,
                "padding": int(np.sum(features.input_mask == 0)),
            }
        )
        for record in records.serialize(features):
            self._writers[split].write(record)


def tokenize(
    documents: Iterable[Document],
    config: CorpusConfig,
    vocabulary: Vocabulary,
) -> Iterator[Tokenized]:
    """Tokenizes documents in batches, in several threads."""
    to_ids = _tokenizer(vocabulary, config.do_lower_case, config.strip_accents)

    def tokenize_batch(batch: list[Document]) -> list[Tokenized]:
        lines = [document.lines for document in batch]
        ragged = to_ids(tf.constant(list(itertools.chain(*lines))))
        ends = np.cumsum([len(each) for each in lines])
        lengths = np.split(ragged.row_lengths().numpy(), ends[:-1])
        ends = np.cumsum([each.sum() for each in lengths])
        ids = np.split(ragged.values.numpy(), ends[:-1])
        lengths = (each.tolist() for each in lengths)
        return list(zip(batch, ids, lengths, strict=True))

    num_threads = tf.config.threading.get_inter_op_parallelism_threads()
    num_threads = num_threads or min(MAX_THREADS, num_cores())
    with futures.ThreadPoolExecutor(num_threads) as pool:
        pending: collections.deque = collections.deque()
        for batch in batches(
            documents,
            size=lambda document: sum(map(len, document.lines)),
            enough=BATCH_CHARACTERS,
        ):
            pending.append(pool.submit(tokenize_batch, batch))
            if len(pending) > num_threads:  # bounds the text in memory
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


@functools.lru_cache(maxsize=1)
def _tokenizer(
    vocabulary: Vocabulary, do_lower_case: bool, strip_accents: bool
) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Returns a tokenizing graph, traced once for all shards of a corpus."""
    tokenizer = make_tokenizer(vocabulary, do_lower_case, strip_accents)
    signature = [tf.TensorSpec([None], tf.string)]
    return tf.function(
        tokenizer.tokenize, input_signature=signature, autograph=False
    )
