"""The held-out split: a function of the documents' text and the seed."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from electra_tf.data.record_format import HELD_OUT, TRAIN


class Document(NamedTuple):
    """A document and its split.

    Attributes:
      lines: its text.
      key: 128-bit hash of its text and `data_seed`, which seeds its random
        choices; the documents with the smallest keys are held out.
      split: "train" or "held_out".
    """

    lines: list[str]
    key: int
    split: str


class Splitter:
    """Assigns documents to the splits; equal documents go to the same split.

    If there are two different documents, at least one is held out. So the
    document with the smallest key stays undecided until another one is held
    out, in this shard of a corpus or in another; `decide` assigns the rest.

    Args:
      held_out_fraction: share of the documents to hold out; 0 for none.
      seed: `data_seed`.

    Attributes:
      undecided: copies of one document.
      splits: the splits that documents were assigned to.
    """

    def __init__(self, held_out_fraction: float, seed: int) -> None:
        self.undecided: list[Document] = []
        self.splits: set[str] = set()
        self._threshold = held_out_fraction * 2**128
        self._seed = seed

    def assign(self, documents: Iterable[list[str]]) -> Iterator[Document]:
        """Yields documents, in order except for those that were undecided.

        Args:
          documents: the lines of each document.
        """
        for lines in documents:
            for document in self._release(lines):
                self.splits.add(document.split)
                yield document

    def _release(self, lines: list[str]) -> list[Document]:
        """Adds a document; returns the documents whose split is now decided."""
        document = Document(lines, document_key(lines, self._seed), TRAIN)
        if document.key < self._threshold:
            released, self.undecided = self.undecided, []
            return [*released, document._replace(split=HELD_OUT)]
        if not self._threshold or HELD_OUT in self.splits:
            return [document]
        first = self.undecided[0].key if self.undecided else document.key
        if document.key > first:
            return [document]
        if document.key == first:
            self.undecided.append(
                self.undecided[0] if self.undecided else document
            )
            return []
        released, self.undecided = self.undecided, [document]
        return released


def decide(undecided: Iterable[Document], splits: set[str]) -> list[Document]:
    """Assigns the undecided documents when all others are assigned.

    Args:
      undecided: the undecided documents of all shards of a corpus.
      splits: the splits that have documents.

    Returns:
      The documents, sorted by key; those with the smallest key are held out if
      no other document is and there are others to train on.
    """
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
