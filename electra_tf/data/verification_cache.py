"""Cache of verified record files, so that a restart need not read them.

It lies beside the files, in `CACHE_FILE`. An entry holds for one file as it was
when it was verified: a copy, or a file that was written or replaced since, is
verified again. Bit rot on the disk does not invalidate an entry; the checksums
of the records reveal it when they are read.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from electra_tf.data.scanner import Contents
from electra_tf.util import files, storage

CACHE_FILE = ".verified.json"
_FORMAT_VERSION = 1


class CacheEntry(NamedTuple):
    """A file whose records were all read and verified."""

    identity: list[int]
    contents: Contents


def read(directory: str) -> dict[str, CacheEntry]:
    """Returns the entries in a directory, by the path of the file."""
    try:
        stored = files.read_object(os.path.join(directory, CACHE_FILE))
        entries = stored["files"]
        if stored != _with_checksum(entries):
            return {}
        return {
            os.path.join(directory, name): CacheEntry(
                identity, Contents(*found)
            )
            for name, (identity, found) in entries.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def add(directory: str, entries: Mapping[str, CacheEntry]) -> None:
    """Adds the entries of files to those in their directory."""
    with contextlib.suppress(OSError):
        entries = {
            os.path.basename(path): entry
            for path, entry in sorted((read(directory) | entries).items())
            # Some stores report no modification time.
            if all(entry.identity) and storage.exists(path)
        }
        path = os.path.join(directory, CACHE_FILE)
        files.atomic_write_text(path, json.dumps(_with_checksum(entries)))


def forget(directories: Iterable[str]) -> None:
    """Removes the entries in directories, where they can be removed."""
    for directory in directories:
        with contextlib.suppress(OSError):
            storage.remove(os.path.join(directory, CACHE_FILE))


def _with_checksum(entries: Mapping[str, object]) -> dict[str, object]:
    """Returns entries with their version and checksum."""
    text = json.dumps(entries, sort_keys=True)
    return {
        "format_version": _FORMAT_VERSION,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "files": entries,
    }
