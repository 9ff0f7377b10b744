"""Duplicates: documents that a corpus holds more than once.

Two documents are equal if their words are equal, ignoring white space, and
ignoring letter case if the tokenizer ignores it. The first one in the order of
the corpus stays.

The hashes of the documents of each shard are written first. Then they are
compared, one range of hashes at a time: about `BUCKET_DOCUMENTS` hashes are in
memory at once, and one bit for each document. This module does not import
TensorFlow.
"""

import hashlib
import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from electra_tf.data.corpus import Statistics
from electra_tf.util import files, storage

BUCKET_DOCUMENTS = 2**22  # 300 MB while repetitions are found

_NUM_RANGES = 256  # ranges of hashes, by their first byte
# Both halves of a hash, and the number of its document in its shard.
_ENTRY = np.dtype([("first", "<u8"), ("second", "<u8"), ("number", "<u4")])
_STARTS = np.dtype("<u8")
_HEADER_BYTES = (_NUM_RANGES + 1) * _STARTS.itemsize


def document_hash(lines: Iterable[str], *, do_lower_case: bool) -> bytes:
    """Returns a 16-byte hash, which is equal for equal documents."""
    text = " ".join(word for line in lines for word in line.split())
    text = unicodedata.normalize("NFC", text)
    text = text.lower() if do_lower_case else text
    content = text.encode()
    return hashlib.blake2b(content, digest_size=16).digest()


def write_hashes(path: str, hashes: Iterable[bytes]) -> None:
    """Writes the hashes of the documents of a shard."""
    halves = np.frombuffer(b"".join(hashes), ">u8").reshape(-1, 2)
    entries = np.empty(len(halves), _ENTRY)
    entries["first"], entries["second"] = halves.T
    entries["number"] = np.arange(len(halves))
    order = np.lexsort((entries["second"], entries["first"]))  # stable
    entries = entries[order]
    ranges = np.arange(_NUM_RANGES, dtype=np.uint64) << np.uint64(56)
    starts = np.searchsorted(entries["first"], ranges)
    starts = np.append(starts, len(entries)).astype(_STARTS)
    files.atomic_write_bytes(path, starts.tobytes() + entries.tobytes())


def count(path: str) -> int:
    """Returns the number of documents in a file of hashes."""
    return (storage.size(path) - _HEADER_BYTES) // _ENTRY.itemsize


def find(paths: Sequence[str]) -> list[bytes]:
    """Finds the documents that are equal to an earlier one."""
    counts = np.array([count(path) for path in paths])
    sizes = -(-counts // 8)
    ends = np.cumsum(sizes)
    bits = np.zeros(ends[-1], np.uint8)
    num_buckets = -(-int(counts.sum()) // BUCKET_DOCUMENTS)
    num_buckets = min(max(num_buckets, 1), _NUM_RANGES)
    edges = np.linspace(0, _NUM_RANGES, num_buckets + 1).astype(int).tolist()
    for first, last in itertools.pairwise(edges):
        shard_hashes = [_read_hashes(path, first, last) for path in paths]
        shards, numbers = _find_repeated(shard_hashes)
        places = (ends - sizes)[shards] + (numbers >> 3)
        values = (1 << (numbers & 7)).astype(np.uint8)
        np.bitwise_or.at(bits, places, values)
    return [each.tobytes() for each in np.split(bits, ends[:-1])]


def _read_hashes(path: str, first: int, last: int) -> np.ndarray:
    """Reads the hashes of the ranges from `first` to before `last`."""
    with storage.open_binary(path) as file:
        starts = np.frombuffer(file.read(_HEADER_BYTES), _STARTS)
        start, end = int(starts[first]), int(starts[last])
        file.seek(_HEADER_BYTES + start * _ENTRY.itemsize)
        content = file.read((end - start) * _ENTRY.itemsize)
    return np.frombuffer(content, _ENTRY)


def without_duplicates(
    documents: Iterable[list[str]], dropped: bytes, statistics: Statistics
) -> Iterator[list[str]]:
    """Yields the documents of a shard that are not duplicates."""
    for number, lines in enumerate(documents):
        byte = dropped[number >> 3] if number >> 3 < len(dropped) else 0
        if byte >> (number & 7) & 1:
            statistics.duplicate_documents += 1
            statistics.duplicate_bytes += sum(
                len(line.encode()) + 1 for line in lines
            )
        else:
            yield lines


def _find_repeated(
    shard_hashes: Sequence[np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Returns all documents that are equal to an earlier one."""
    entries = np.concatenate(shard_hashes)
    shards = np.repeat(
        np.arange(len(shard_hashes)), list(map(len, shard_hashes))
    )
    halves = entries["first"], entries["second"]
    order = np.lexsort(halves[::-1])  # stable: by shard and number then
    is_same = np.ones(max(len(order) - 1, 0), bool)
    for half in halves:
        is_same &= half[order[1:]] == half[order[:-1]]
    repeated = np.sort(order[1:][is_same])
    return shards[repeated], entries["number"][repeated]
