"""Which documents of a corpus are used: duplicates are dropped, some held out.

Two documents are equal if their words are, ignoring white space, and letter
case if the tokenizer ignores it. A hash of its text holds a document out, so
that equal documents go to the same split.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from etils import epath

from electra_tf.data.corpus import Counts
from electra_tf.data.records import HELD_OUT, TRAIN

BUCKET_DOCUMENTS = 2**23  # compared at a time, in 500 MB


def document_hash(lines: Iterable[str], *, do_lower_case: bool) -> bytes:
    """Returns a 16-byte hash, which is equal for equal documents."""
    text = " ".join(word for line in lines for word in line.split())
    text = unicodedata.normalize("NFC", text)
    text = text.lower() if do_lower_case else text
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def find_repeated(paths: Sequence[str]) -> list[bytes]:
    """Marks repeated documents: one bit for each document of each file."""
    ends = np.cumsum([len(_read_hashes(path)) for path in paths])
    is_repeated = np.zeros(ends[-1], bool)
    num_buckets = -(-ends[-1] // BUCKET_DOCUMENTS)
    for bucket in range(num_buckets):
        hashes, places, start = [], [], 0
        for path, end in zip(paths, ends, strict=True):
            shard = _read_hashes(path)
            is_in_bucket = shard[:, 0] % num_buckets == bucket
            hashes.append(shard[is_in_bucket])
            places.append(start + np.flatnonzero(is_in_bucket))
            start = end
        halves, place = np.concatenate(hashes), np.concatenate(places)
        order = np.lexsort(halves.T)  # stable: equal ones stay in order
        is_same = (halves[order[1:]] == halves[order[:-1]]).all(axis=1)
        is_repeated[place[order[1:][is_same]]] = True
    shards = np.split(is_repeated, ends[:-1])
    return [np.packbits(x, bitorder="little").tobytes() for x in shards]


def _read_hashes(path: str) -> np.ndarray:  # [documents, 2]
    return np.frombuffer(epath.Path(path).read_bytes(), ">u8").reshape(-1, 2)


def without_duplicates(
    documents: Iterable[list[str]], dropped: bytes, counts: Counts
) -> Iterator[list[str]]:
    for number, lines in enumerate(documents):
        byte = dropped[number >> 3] if number >> 3 < len(dropped) else 0
        if byte >> (number & 7) & 1:
            counts["duplicate_documents"] += 1
        else:
            yield lines


class Document(NamedTuple):
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
