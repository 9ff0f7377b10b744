"""Duplicates: documents that a corpus holds more than once.

Documents are equal if their words are, ignoring white space, and letter case if
the tokenizer ignores it. The first one stays. The hashes of all documents are
compared, about `BUCKET_DOCUMENTS` of them at a time.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from etils import epath

from electra_tf.data.corpus import Counts

BUCKET_DOCUMENTS = 2**23  # 500 MB while repetitions are found


def document_hash(lines: Iterable[str], *, do_lower_case: bool) -> bytes:
    """Returns a 16-byte hash, which is equal for equal documents."""
    text = " ".join(word for line in lines for word in line.split())
    text = unicodedata.normalize("NFC", text)
    text = text.lower() if do_lower_case else text
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def find_repeated(paths: Sequence[str]) -> list[bytes]:
    """Finds the documents that are equal to an earlier one.

    Each file has the hashes of a shard. Returns a bit for each document.
    """
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


def _read_hashes(path: str) -> np.ndarray:
    """Reads hashes [documents, 2]."""
    content = epath.Path(path).read_bytes()
    return np.frombuffer(content, ">u8").reshape(-1, 2)


def without_duplicates(
    documents: Iterable[list[str]], dropped: bytes, counts: Counts
) -> Iterator[list[str]]:
    """Yields the documents of a shard that are not duplicates."""
    for number, lines in enumerate(documents):
        byte = dropped[number >> 3] if number >> 3 < len(dropped) else 0
        if byte >> (number & 7) & 1:
            counts["duplicate_documents"] += 1
            counts["duplicate_bytes"] += sum(
                len(line.encode()) + 1 for line in lines
            )
        else:
            yield lines
