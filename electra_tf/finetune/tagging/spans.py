"""Spans from tags and tags from spans.

A tag is "O" outside of all spans; else B, I, E or S for the place in a span, a
dash, and the kind of the span. The encodings BIOES, BIO and IOB1 are recognized
and written.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

import tensorflow as tf

Span = tuple[int, int, str]
"""First and last word of a span, and its kind."""


def get_span_labels(
    tags: Sequence[str], *, original: bool = False
) -> list[Span]:
    """Decodes tags into spans, in any encoding by B, I, E and S.

    A span ends where the kind changes; the original's continues, with the kind
    of its last word.
    """
    spans: list[Span] = []
    first, before, kind = None, "O", ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, new_kind = tag.partition("-")
        ends = prefix in ("B", "S", "O")
        if not original:
            ends = ends or before in ("E", "S") or new_kind != kind
        if first is not None and ends:
            spans.append((first, i - 1, kind))
            first = None
        if first is None and prefix != "O":
            first = i
        before, kind = prefix, new_kind
    return spans


def get_tags(
    spans: Sequence[Span], length: int, encoding: str = "BIOES"
) -> list[str]:
    """Encodes spans as tags."""
    tags = ["O"] * length
    ends = {(last + 1, kind) for _, last, kind in spans}
    for first, last, kind in spans:
        tags[first : last + 1] = [f"I-{kind}"] * (last + 1 - first)
        if "E" in encoding:
            tags[last] = f"E-{kind}"
        if encoding != "IOB1" or (first, kind) in ends:
            tags[first] = f"B-{kind}"
        if "S" in encoding and first == last:
            tags[first] = f"S-{kind}"
    return tags


def in_encoding(
    tags: Sequence[str], encoding: str, *, original: bool = False
) -> list[str]:
    """Returns a model's tags of a sentence in the encoding of answers."""
    if encoding == "BIOES":
        return list(tags)
    spans = get_span_labels(tags, original=original)
    return get_tags(spans, len(tags), encoding)


def find_encoding(sentences: Iterable[Sequence[str]]) -> str:
    """Returns the encoding that tags are in, see `get_tags`."""
    starts: Counter[str] = Counter()  # prefixes where the kind changes
    for tags in sentences:
        parts = [tag.partition("-") for tag in ("O", *tags)]
        if {"E", "S"} & {prefix for prefix, _, _ in parts}:
            return "BIOES"
        for (_, _, before), (prefix, _, kind) in itertools.pairwise(parts):
            starts[prefix] += kind not in ("", before)
    return "IOB1" if starts["I"] > starts["B"] else "BIO"


def is_span_tag(tag: str) -> bool:
    """Returns whether a tag is O, or B, I, E or S with a dash and a kind."""
    prefix, _, kind = tag.partition("-")
    return tag == "O" or (prefix in ("B", "I", "E", "S") and kind != "")


def written_tags(
    tags: tf.Tensor,
    is_word: tf.Tensor,
    labels: Sequence[str],
    encoding: str,
    *,
    original: bool = False,
) -> tf.Tensor:
    """Does in a graph what `in_encoding` does, for rows of W words.

    Shapes: tags [B, W], is_word [B, W]; returns string [B, W].
    """
    labels = (*labels, "O")  # the last where there is no word
    none = len(labels) - 1
    tags = tf.where(is_word, tags, none)
    if encoding == "BIOES":
        return tf.gather(labels, tags)

    def begins(*pair: str) -> bool:
        """Returns whether a span begins at the second of two tags."""
        spans = get_span_labels(pair, original=original)
        return 1 in [first for first, _, _ in spans]

    table = [[begins(before, tag) for tag in labels] for before in labels]
    before = tf.pad(tags, [[0, 0], [1, 0]], constant_values=none)[:, :-1]
    is_begin = tf.gather_nd(table, tf.stack([before, tags], -1))
    kinds = tf.gather([x.partition("-")[2] for x in labels], tags)
    if original:  # each word has the kind of the last word of its span
        is_first = tf.reshape(is_begin | (kinds == ""), [-1])
        spans = tf.cumsum(tf.cast(is_first, tf.int32)) - 1
        last = tf.math.segment_max(tf.range(tf.size(spans)), spans)
        flat = tf.gather(tf.reshape(kinds, [-1]), tf.gather(last, spans))
        kinds = tf.reshape(flat, tf.shape(kinds))
    if encoding == "IOB1":
        is_begin &= kinds == tf.pad(kinds, [[0, 0], [1, 0]])[:, :-1]
    written = tf.strings.join([tf.where(is_begin, "B-", "I-"), kinds])
    return tf.where(kinds == "", "O", written)
