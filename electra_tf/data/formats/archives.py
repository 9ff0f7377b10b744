"""Tar archives as streams of files; nothing is written to the disk."""

import posixpath
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

from electra_tf.data.formats.text_lines import Statistics

HEADER_BYTES = 512


def is_archive(head: bytes) -> bool:
    """Says whether a file is a tar archive.

    Args:
      head: its first `HEADER_BYTES` bytes.
    """
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def members(
    file: BinaryIO, statistics: Statistics
) -> Iterator[tuple[str, BinaryIO]]:
    """Reads the files of an archive, one after the other.

    Links, devices, hidden files, absolute paths and paths with ".." are left
    out and counted: nothing is ever extracted, but who packs them may mean
    harm, and what they hold is no text.

    Args:
      file: the archive.
      statistics: counts what is left out.

    Yields:
      The name and the content of each file, to be read before the next.
    """
    with tarfile.open(fileobj=file, mode="r|") as archive:
        for member in archive:
            if member.isdir():
                continue
            if member.isreg() and _is_safe(member.name):
                yield member.name, archive.extractfile(member)
            else:
                statistics.skipped_members += 1
            archive.members = []  # else all of them stay in memory


def _is_safe(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    is_hidden = posixpath.basename(name).startswith(".")
    return not (is_hidden or name.startswith(("/", "\\")) or ".." in parts)
