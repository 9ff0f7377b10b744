"""Files to which lines are appended, on this machine or in a store."""

import itertools
import os
from collections.abc import Callable, Iterator

from electra_tf.util import files, storage
from electra_tf.util.errors import add_path_to_errors

_PART_BYTES = 2**17


class LineLog:
    """A file to which lines are appended."""

    def __init__(self, path: storage.StrPath) -> None:
        self.path = os.fspath(path)
        self._is_remote = storage.is_remote(path)
        self._last: tuple[int, bytes] | None = None  # number and content

    def read(self) -> bytes:
        """Returns all lines; b"" if there is no file."""
        return b"".join(self._parts())

    def append(self, text: str) -> None:
        """Appends lines; errors name the file."""
        if not self._is_remote:
            with (
                add_path_to_errors(self.path),
                open(self.path, "a", encoding="utf-8") as file,
            ):
                file.write(text)
            return
        if self._last is None:
            parts = [*self._parts()] or [b""]
            self._last = len(parts) - 1, parts[-1]
        number, content = self._last
        if len(content) >= _PART_BYTES:
            number, content = number + 1, b""
        content += text.encode()
        files.atomic_write_bytes(self._part(number), content)
        self._last = number, content

    def keep(self, is_kept: Callable[[bytes], bool]) -> None:
        """Drops lines; a crash never loses a line that is to be kept."""
        self._last = None
        parts = [*self._parts()]
        if parts and self._is_remote:
            self._finish_rename(len(parts) - 1, parts[-1])
        kept = [
            b"".join(x + b"\n" for x in part.splitlines() if is_kept(x))
            for part in parts
        ]
        while len(kept) > 1 and not kept[-1]:  # the last first: no gaps
            kept.pop()
            for path in self._names(self._part(len(kept))):
                storage.remove(path)
        for number, content in enumerate(kept):
            if content != parts[number]:
                files.atomic_write_bytes(self._part(number), content)

    def _finish_rename(self, number: int, content: bytes) -> None:
        """Finishes an interrupted rename, as the next one uses its name."""
        path = self._part(number)
        temporary = files.unfinished_path(path)
        if not storage.exists(temporary):
            return
        if storage.read_bytes(temporary) == content:
            storage.move(temporary, path)

    def _part(self, number: int) -> str:
        return f"{self.path}.{number:04}" if number else self.path

    def _parts(self) -> Iterator[bytes]:
        """Yields the files' contents."""
        for number in itertools.count() if self._is_remote else [0]:
            content = self._content(self._part(number))
            if content is None:
                return
            yield content

    def _content(self, path: str) -> bytes | None:
        """Reads a file; None if it is missing."""
        contents = map(storage.read_bytes, self._names(path))
        return max(contents, key=len, default=None)

    def _names(self, path: str) -> list[str]:
        """Returns the existing ones of a file's final and temporary names."""
        names = [path, files.unfinished_path(path)][: 1 + self._is_remote]
        return [name for name in names if storage.exists(name)]
