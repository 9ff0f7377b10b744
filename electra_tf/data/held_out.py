"""Held-out documents of a corpus and rows of a table, by hashes of texts."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from electra_tf.data.records import HELD_OUT, TRAIN


class Document(NamedTuple):
    """A document and its split."""

    lines: list[str]
    key: int
    split: str


class Splitter:
    """Assigns documents to the splits; equal documents go to the same split.

    At least one is held out: until one is, the document of the smallest key is
    undecided.
    """

    def __init__(self, held_out_fraction: float, seed: int) -> None:
        self.undecided: list[Document] = []
        self.splits: set[str] = set()
        self._threshold = held_out_fraction * 2**128
        self._seed = seed

    def assign(self, documents: Iterable[list[str]]) -> Iterator[Document]:
        """Yields documents, in order except for those that were undecided."""
        for lines in documents:
            for document in self._release(lines):
                self.splits.add(document.split)
                yield document

    def _release(self, lines: list[str]) -> list[Document]:
        """Adds a document; returns the documents whose split is now decided."""
        document = Document(lines, document_key(lines, self._seed), TRAIN)
        undecided = self.undecided
        if document.key < self._threshold:
            self.undecided = []
            return [*undecided, document._replace(split=HELD_OUT)]
        if not self._threshold or HELD_OUT in self.splits:
            return [document]
        if not undecided or document.key < undecided[0].key:
            self.undecided = [document]
            return undecided
        if document.key > undecided[0].key:
            return [document]
        undecided.append(undecided[0])  # of equal text
        return []


def decide(undecided: Iterable[Document], splits: set[str]) -> list[Document]:
    """Assigns the undecided documents when all others are assigned."""
    documents = sorted(undecided, key=lambda document: document.key)
    if not documents or HELD_OUT in splits:
        return documents
    smallest = documents[0].key
    if TRAIN not in splits and documents[-1].key == smallest:
        return documents
    return [
        document._replace(split=HELD_OUT if document.key == smallest else TRAIN)
        for document in documents
    ]


def document_key(lines: list[str], seed: int) -> int:
    """Returns a 128-bit hash of a text and a seed."""
    content = "\n".join(lines).encode()
    digest = hashlib.blake2b(
        content, digest_size=16, key=str(seed).encode()
    ).digest()
    return int.from_bytes(digest)


def hold_out_rows(rows: Sequence[Sequence[str]], fraction: float) -> list[bool]:
    """Returns which rows are held out; a text is on one side alone.

    Rows that share a text, or are linked by such rows, stay together: the hash
    of their smallest text decides.
    """
    parents: dict[str, str] = {}

    def root(text: str) -> str:
        while (parent := parents.setdefault(text, text)) != text:
            parents[text] = parents[parent]  # halves the path
            text = parent
        return text

    def share(text: str) -> float:  # in [0, 1)
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest) / 2**64

    for first, *others in rows:
        for other in others:
            smaller, larger = sorted((root(first), root(other)))
            parents[larger] = smaller
    return [share(root(row[0])) < fraction for row in rows]
