"""Counts of shards, which add up to the counts of a corpus."""

import collections
import dataclasses
from typing import Any, NamedTuple

import numpy as np

from electra_tf.data.corpus import Statistics
from electra_tf.data.held_out import Document
from electra_tf.data.record_format import SPLITS, RecordKind
from electra_tf.util import files


@dataclasses.dataclass
class Lengths:
    """Statistics of the lengths of documents, which can be added up."""

    documents: int = 0
    tokens: int = 0
    shortest: int | None = None
    longest: int | None = None
    histogram: dict[str, int] = dataclasses.field(default_factory=dict)

    def count(self, num_tokens: int) -> None:
        """Adds the length of one document."""
        lower = str(1 << num_tokens.bit_length() >> 1)
        self.add(Lengths(1, num_tokens, num_tokens, num_tokens, {lower: 1}))

    def add(self, other: "Lengths") -> None:
        """Adds the lengths of other documents."""
        self.documents += other.documents
        self.tokens += other.tokens
        limits = {self.shortest, self.longest, other.shortest, other.longest}
        if limits := limits - {None}:
            self.shortest, self.longest = min(limits), max(limits)
        for lower, number in other.histogram.items():
            self.histogram[lower] = self.histogram.get(lower, 0) + number

    def summary(self) -> dict[str, Any]:
        """Returns the statistics as the JSON values of a manifest."""
        mean = self.tokens / self.documents if self.documents else None
        return {
            "documents": self.documents,
            "mean": mean and round(mean, 1),
            "min": self.shortest,
            "max": self.longest,
            "histogram": dict(
                sorted(self.histogram.items(), key=lambda item: int(item[0]))
            ),
        }


class Packed(NamedTuple):
    """Counts of the records of one data set.

    Shapes: unigrams [V].
    """

    counts: collections.Counter[str]
    unigrams: np.ndarray


@dataclasses.dataclass
class Summary:
    """The counts of a shard, or of several."""

    statistics: Statistics
    packed: list[Packed]
    lengths: dict[str, Lengths]
    splits: set[str] = dataclasses.field(default_factory=set)
    undecided: list[Document] = dataclasses.field(default_factory=list)

    @classmethod
    def empty(cls, num_data_sets: int, vocab_size: int) -> "Summary":
        """Returns the summary of no shards."""
        return cls(
            Statistics(),
            [
                Packed(collections.Counter(), np.zeros(vocab_size, np.int64))
                for _ in range(num_data_sets)
            ],
            {split: Lengths() for split in SPLITS},
        )

    def add(self, other: "Summary") -> None:
        """Adds the counts of other shards."""
        self.statistics.add(other.statistics)
        for packed, added in zip(self.packed, other.packed, strict=True):
            packed.counts.update(added.counts)
            packed.unigrams[:] += added.unigrams
        for split, lengths in other.lengths.items():
            self.lengths[split].add(lengths)
        self.splits |= other.splits
        self.undecided += other.undecided

    def num_records(self, kind: RecordKind) -> int:
        """Returns the number of records of a kind."""
        return sum(packed.counts[kind.counter] for packed in self.packed)

    def write(self, path: str) -> None:
        """Writes the summary as JSON."""
        values = {
            "statistics": vars(self.statistics),
            "packed": [
                [dict(packed.counts), packed.unigrams.tolist()]
                for packed in self.packed
            ],
            "lengths": {s: vars(each) for s, each in self.lengths.items()},
            "splits": sorted(self.splits),
            "undecided": self.undecided,
        }
        files.write_json(path, values)

    @classmethod
    def read(cls, path: str) -> "Summary":
        """Reads a summary that `write` wrote."""
        values = files.read_json(path)
        return cls(
            Statistics(**values["statistics"]),
            [
                Packed(collections.Counter(counts), np.array(unigrams))
                for counts, unigrams in values["packed"]
            ],
            {s: Lengths(**each) for s, each in values["lengths"].items()},
            set(values["splits"]),
            [Document(*document) for document in values["undecided"]],
        )
