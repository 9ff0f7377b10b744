"""Spans of tags, and windows over words."""

import functools
import json

import golden_arrays
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.finetune.tagging import spans as span_tags
from electra_tf.finetune.tagging.tagging_head import get_windows

GOLDEN = json.loads(
    (golden_arrays.ROOT / "finetune/metrics.json").read_text("utf-8")
)


@pytest.mark.parametrize("case", GOLDEN["span_labels"])
def test_spans_and_tags_are_those_of_the_original(case):
    spans = span_tags.get_span_labels(case["tags"], original=True)
    assert [list(span) for span in spans] == case["spans"]
    for encoding in ("BIOES", "BIO"):
        tags = span_tags.get_tags(spans, len(case["tags"]), encoding)
        assert tags == case[encoding]


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B-X I-X O I-X", [(0, 1, "X"), (3, 3, "X")]),
        ("I-X I-Y I-Y B-Y", [(0, 0, "X"), (1, 2, "Y"), (3, 3, "Y")]),
        ("S-X I-X E-X E-X", [(0, 0, "X"), (1, 2, "X"), (3, 3, "X")]),
        ("B-X I-Y", [(0, 0, "X"), (1, 1, "Y")]),
        ("O O", []),
        ("", []),
    ],
)
def test_a_span_ends_where_the_kind_changes(tags, spans):
    assert span_tags.get_span_labels(tags.split()) == spans


LABELS = ("O", *(f"{x}-{kind}" for kind in "XY" for x in "BIES"))


@pytest.mark.parametrize(
    ("sentences", "encoding"),
    [
        (["B-X I-X O B-Y", "B-X B-X"], "BIO"),
        (["I-X I-X O I-Y", "I-X B-X I-X"], "IOB1"),
        (["B-X I-X O S-Y"], "BIOES"),
        (["B-X I-X O B-Y B-X", "O I-X"], "BIO"),  # I-X after O is an error
        (["O O", ""], "BIO"),
    ],
)
def test_the_encoding_of_a_file_is_known_by_its_tags(sentences, encoding):
    tags = [sentence.split() for sentence in sentences]
    assert span_tags.find_encoding(tags) == encoding


@pytest.mark.parametrize("original", [False, True])
@pytest.mark.parametrize("encoding", ["BIOES", "BIO", "IOB1"])
def test_tags_in_any_encoding_have_the_same_spans_also_in_a_graph(
    encoding, original
):
    random = np.random.default_rng(0)
    tags = random.integers(len(LABELS), size=(200, 8))
    sizes = random.integers(1, 9, size=200)
    write = functools.partial(
        span_tags.written_tags,
        labels=LABELS,
        encoding=encoding,
        original=original,
    )
    is_word = np.arange(8) < sizes[:, np.newaxis]
    found = tf.function(write)(tf.constant(tags, tf.int32), is_word).numpy()
    for size, numbers, row in zip(sizes, tags, found, strict=True):
        names = [LABELS[i] for i in numbers[:size]]
        spans = span_tags.get_span_labels(names, original=original)
        expected = span_tags.in_encoding(names, encoding, original=original)
        again = span_tags.get_tags(spans, size, encoding)
        assert span_tags.get_span_labels(again) == spans
        assert {tag[:1] for tag in expected} <= {*encoding}
        assert [x.decode() for x in row[:size]] == expected
        assert {*row[size:]} <= {b"O"}


def test_windows_score_every_word_once_and_fit():
    random = np.random.default_rng(2)
    for room in (3, 8, 21):
        for _ in range(100):
            count = random.integers(1, 40)
            sizes = random.integers(1, room + 1, count).tolist()
            windows = get_windows(sizes, room)
            scored = []
            for first, end, first_scored, end_scored in windows:
                assert sum(sizes[first:end]) <= room
                assert first <= first_scored <= end_scored <= end
                scored += range(first_scored, end_scored)
            assert scored == list(range(count))
