"""Mutations of valid files, and limits on time and memory of readers."""

import contextlib
import json
import pathlib
import re
import resource
import signal

from hypothesis import strategies as st

CPU_SECONDS = 5
"""For one file of a few kilobytes; a slower reader counts as hanging."""
MEMORY_BYTES = 2**32
"""Beyond the size of the process; forged sizes in files are larger."""

_SIZES = (0, 1, 2**31 - 1, 2**31, 2**40, 2**60, 2**63, 2**64 - 1)
_VARINT = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"  # 2^63 - 1
_PIECES = [
    *(size.to_bytes(8, "little") for size in _SIZES),
    *(size.to_bytes(8, "big") for size in _SIZES),
    *(b"\0", b"\0" * 16, b"\xff" * 4, _VARINT, b"\n", b"\r", b"\t", b","),
    *(b'"', b"'", b"\\", b"[", b"]", b"{", b"}", b"=", b"../", b"\\ud800"),
    *(b"\xef\xbb\xbf", b"\xff\xfe", "\u2028é字😀".encode(), b"-1", b"1e999"),
]
_NUMBERS = (
    *("-1", "0", "1", "7", "-0.5", "1e999", "NaN", "Infinity"),
    *("9" * 19, "9" * 400, "9" * 5000, "\u0663"),
)
_SCALARS = [
    *(None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, 10**400),
    *(0.5, 1e300, float("inf"), float("nan")),
    *("", "x", "\0", "\ud800", "../../x", "/x", "9" * 5000, "0", "a" * 300),
]


@st.composite
def mutations(draw, content):
    """Draws a mutation of a valid file, or random bytes.

    Args:
      draw: given by hypothesis.
      content: bytes of the valid file.
    """
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=64))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.sampled_from(_LENGTHS)))
        change = draw(st.sampled_from(_CHANGES))
        piece = draw(st.sampled_from(_PIECES))
        content = change(content, start, end, piece)
    return content


_LENGTHS = (1, 1, 2, 4, 8, 16, 64, 1000)


def _flip(content, start, end, piece):
    flipped = bytearray(content)
    for i in range(start, min(end, start + 1)):
        flipped[i] ^= 1 << piece[0] % 8
    return bytes(flipped)


def _cut(content, start, end, _):
    return content[:start] + content[end:]


def _truncate(content, start, *_):
    return content[:start]


def _insert(content, start, _, piece):
    return content[:start] + piece + content[start:]


def _overwrite(content, start, _, piece):
    return (content[:start] + piece + content[start + len(piece) :])[
        : max(len(content), start)
    ]


def _repeat(content, start, end, piece):
    few = content[start : min(end, start + 64)] or piece
    return content[:start] + few * (100_000 // len(few)) + content[start:]


def _double(content, start, end, _):
    return content[:end] + content[start:end] + content[end:]


def _number(content, start, _, piece):
    """Replaces the next decimal number by another."""
    if not (found := re.compile(rb"-?\d+(\.\d+)?").search(content, start)):
        return content
    number = _NUMBERS[sum(piece) % len(_NUMBERS)].encode()
    return content[: found.start()] + number + content[found.end() :]


_CHANGES = (
    *(_flip, _cut, _truncate, _insert, _overwrite, _overwrite),
    *(_repeat, _double, _number, _number),
)


@st.composite
def documents(draw, value):
    """Draws JSON that differs from a valid value in one place, as bytes.

    Args:
      draw: given by hypothesis.
      value: the valid value.
    """
    changed = _changed(draw, value)
    return json.dumps(changed).encode("utf-8", "surrogatepass")


def _changed(draw, value):
    """Returns a value of which one part is replaced, wrapped or deleted."""
    is_inner = isinstance(value, dict | list) and value
    if is_inner and draw(st.integers(0, 7)):
        keys = [*value] if isinstance(value, dict) else [*range(len(value))]
        key = draw(st.sampled_from(keys))
        copy = value.copy()
        if draw(st.integers(0, 7)):
            copy[key] = _changed(draw, value[key])
        else:
            del copy[key]
        return copy
    other = draw(st.sampled_from(_SCALARS))
    depth = draw(st.sampled_from((0, 0, 0, 1, 2)))
    wrap = draw(st.sampled_from((lambda x: [x], lambda x: {"x": x})))
    if depth == 0:
        return other
    return wrap(value if depth == 1 else [other, value])


@contextlib.contextmanager
def limits():
    """Limits the CPU time and the memory of its block."""

    def hang(*_):
        raise AssertionError(f"a reader took {CPU_SECONDS} s")

    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    max_bytes = pages * resource.getpagesize() + MEMORY_BYTES
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGPROF, hang)
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, before[1]))
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGPROF, handler)
