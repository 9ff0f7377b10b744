"""Spans from tags and tags from spans, and windows over long sentences.

Tags are "O" outside of all spans, or say with B, I, E or S and a dash where in
a span of which kind a word stands.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Words that belong together.

    Attributes:
      first: number of the first word.
      last: number of the last.
      kind: of the span.
    """

    first: int
    last: int
    kind: str


class Window(NamedTuple):
    """A part of a sentence that fits into a row.

    Attributes:
      first: number of its first word.
      end: of the first word after it.
      first_scored: of the first word that is scored here.
      end_scored: of the first word after those.
    """

    first: int
    end: int
    first_scored: int
    end_scored: int


def get_span_labels(
    tags: Sequence[str], *, original: bool = False
) -> list[Span]:
    """Finds the spans that tags say, of any encoding from B, I, E and S.

    By default these are the rules of conlleval, which end a span where the
    kind changes.

    Args:
      tags: of a sentence.
      original: whether only B, S and O end a span, as in the original, which
        then is of its last kind.
    """
    spans: list[Span] = []
    first, before, kind = -1, "O", ""
    for i, tag in enumerate([*tags, "O"]):
        place, _, new_kind = tag.partition("-")
        ends = place in ("B", "S", "O")
        if not original:
            ends = ends or before in ("E", "S") or new_kind != kind
        if first >= 0 and ends:
            spans.append(Span(first, i - 1, kind))
            first = -1
        if first < 0 and place != "O":
            first = i
        before, kind = place, new_kind
    return spans


def get_tags(
    spans: Sequence[Span], length: int, encoding: str = "BIOES"
) -> list[str]:
    """Writes spans as tags.

    Args:
      spans: of a sentence, none over another.
      length: of the sentence, words.
      encoding: the letters to use, "BIOES", "BIO" or "IOB1"; this has B only
        where the word before is of another span of the same kind.
    """
    tags = ["O"] * length
    ends = {(span.last + 1, span.kind) for span in spans}
    for first, last, kind in spans:
        for i in range(first, last + 1):
            tags[i] = f"I-{kind}"
        if "E" in encoding:
            tags[last] = f"E-{kind}"
        if encoding != "IOB1" or (first, kind) in ends:
            tags[first] = f"B-{kind}"
        if "S" in encoding and first == last:
            tags[first] = f"S-{kind}"
    return tags


def find_encoding(sentences: Iterable[Sequence[str]]) -> str:
    """Returns the encoding that tags are in, see `get_tags`.

    Args:
      sentences: the tags of each.
    """
    starts: Counter[str] = Counter()
    for tags in sentences:
        kind_before = ""
        for tag in tags:
            place, _, kind = tag.partition("-")
            if place in ("E", "S"):
                return "BIOES"
            starts[place] += kind not in ("", kind_before)
            kind_before = kind
    return "IOB1" if starts["I"] > starts["B"] else "BIO"


def get_windows(sizes: Sequence[int], room: int) -> list[Window]:
    """Covers a sentence with windows so that each word is scored once.

    Neighbouring windows have words in common, about a quarter of the room:
    of these each scores the half that it sees more around.

    Args:
      sizes: tokens of each word, each at most `room`.
      room: tokens in a window.
    """
    spans = [(0, _end(sizes, 0, room))]
    while spans[-1][1] < len(sizes):
        first = _begin(sizes, spans[-1], room)
        spans.append((first, _end(sizes, first, room)))
    cuts = [
        (end + first) // 2
        for (_, end), (first, _) in zip(spans, spans[1:], strict=False)
    ]
    return [
        Window(*span, first_scored, end_scored)
        for span, first_scored, end_scored in zip(
            spans, [0, *cuts], [*cuts, len(sizes)], strict=True
        )
    ]


def _end(sizes: Sequence[int], first: int, room: int) -> int:
    """Returns the end of the longest window from a word on."""
    end, used = first, 0
    while end < len(sizes) and used + sizes[end] <= room:
        used += sizes[end]
        end += 1
    return end


def _begin(sizes: Sequence[int], before: tuple[int, int], room: int) -> int:
    """Returns where the next window begins, so that it also ends later."""
    first, end = before
    begin, used = end, 0
    most = min(room // 4, room - sizes[end])
    while begin - 1 > first and used + sizes[begin - 1] <= most:
        begin -= 1
        used += sizes[begin]
    return begin
