"""How often each token occurs in the training records of a data set.

The file `unigram_counts.txt` beside the manifest has one number a line, in the
order of the vocabulary. It is written with the records, special tokens not
counted, and is the same whatever the number of threads or files.
"""

import os
from collections.abc import Sequence

from electra_tf.data.record_format import MANIFEST, UNIGRAM_COUNTS
from electra_tf.data.records import REBUILD, Records
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError


def lines(counts: Sequence[int]) -> str:
    """Returns the text of the file.

    Args:
      counts: how often each token occurs, in the order of the vocabulary.
    """
    return "".join(f"{count}\n" for count in counts)


def read(records: Records, vocabulary: Vocabulary) -> tuple[int, ...]:
    """Reads the counts of the data sets that records belong to.

    Args:
      records: for training, opened with the vocabulary.
      vocabulary: of the records.

    Returns:
      The count of each token, in the order of the vocabulary.

    Raises:
      UserError: if a data set has no counts, or others than its own.
    """
    directories = {os.path.dirname(file.path) for file in records.files}
    each = [_read(path, vocabulary) for path in sorted(directories)]
    return tuple(map(sum, zip(*each, strict=True)))


def _read(directory: str, vocabulary: Vocabulary) -> list[int]:
    path = os.path.join(directory, UNIGRAM_COUNTS)
    manifest = os.path.join(directory, MANIFEST)
    if not (storage.exists(path) and storage.exists(manifest)):
        raise UserError(
            "Frequencies of word pieces are needed, as a data set has them in "
            f"{UNIGRAM_COUNTS}. Received: {directory or '.'}, where it is "
            f"missing. Build the data set again with {REBUILD}."
        )
    words = storage.read_bytes(path).decode().split()
    counts = [int(word) for word in words if word.isdecimal()]
    with files.shape_of(manifest):
        total = files.read_json(manifest)["counts"].get("train_tokens")
    if (len(counts), sum(counts)) != (vocabulary.size, total):
        raise UserError(
            f"{path} must have {vocabulary.size} numbers that sum to {total}, "
            f"the `train_tokens` of its {MANIFEST}. Received: {len(counts)} "
            f"that sum to {sum(counts)}. Build the data set again with "
            f"{REBUILD}."
        )
    return counts
