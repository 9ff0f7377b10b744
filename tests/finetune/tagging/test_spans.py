import json

import golden_arrays
import numpy as np
import pytest

from electra_tf.finetune.tagging import spans as span_tags

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


def _random_tags(random):
    prefixes = random.choice([*"BIOES"], random.integers(1, 12))
    return [
        "O" if p == "O" else f"{p}-{random.choice(['X', 'Y'])}"
        for p in prefixes
    ]


@pytest.mark.huggingface
def test_spans_are_those_of_seqeval():
    from seqeval.metrics.sequence_labeling import get_entities

    random = np.random.default_rng(0)
    for _ in range(500):
        tags = _random_tags(random)
        expected = [(a, b, kind) for kind, a, b in get_entities(tags)]
        assert span_tags.get_span_labels(tags) == expected


@pytest.mark.parametrize("encoding", ["BIOES", "BIO", "IOB1"])
def test_tags_of_spans_say_the_same_spans(encoding):
    random = np.random.default_rng(1)
    for _ in range(100):
        tags = _random_tags(random)
        spans = span_tags.get_span_labels(tags)
        again = span_tags.get_tags(spans, len(tags), encoding)
        assert span_tags.get_span_labels(again) == spans
        assert {tag[:1] for tag in again} <= {*encoding}


@pytest.mark.parametrize(
    ("sentences", "encoding"),
    [
        (["B-X I-X O B-Y", "B-X B-X"], "BIO"),
        (["I-X I-X O I-Y", "I-X B-X I-X"], "IOB1"),
        (["I-X I-Y O"], "IOB1"),
        (["B-X I-X O S-Y"], "BIOES"),
        (["B-X E-X"], "BIOES"),
        (["B-X I-X O B-Y B-X", "O I-X"], "BIO"),  # I-X after O is an error
        (["O O", ""], "BIO"),
    ],
)
def test_the_encoding_of_a_file_is_known_by_its_tags(sentences, encoding):
    tags = [sentence.split() for sentence in sentences]
    assert span_tags.find_encoding(tags) == encoding
