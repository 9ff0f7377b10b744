"""The first of equal documents is kept, whatever the size of the buckets."""

import dataclasses
import random

import pytest
import tiny_corpus
from tiny_corpus import (
    DOCUMENTS,
    NUM_COPIES,
    build,
    rows_of,
)

from electra_tf.data import corpus, deduplication


def are_equal(one, other, *, do_lower_case=True):
    return deduplication.document_hash(
        one, do_lower_case=do_lower_case
    ) == deduplication.document_hash(other, do_lower_case=do_lower_case)


def test_documents_are_equal_up_to_white_space_and_ignored_case():
    assert are_equal(["one  two", "three"], ["one", "two\tthree"])
    assert are_equal(["caf\u00e9"], ["cafe\u0301"])
    assert are_equal(["One"], ["one"])
    assert not are_equal(["One"], ["one"], do_lower_case=False)
    assert not are_equal(["one two"], ["onetwo"])
    assert not are_equal(["one"], ["one one"])


@pytest.mark.parametrize("bucket", [3, 50, 10**6])
def test_all_but_the_first_of_equal_documents_are_found(
    tmp_path, monkeypatch, bucket
):
    monkeypatch.setattr(deduplication, "BUCKET_DOCUMENTS", bucket)
    rng = random.Random(bucket)
    distinct_hashes = [rng.randbytes(16) for _ in range(40)]
    distinct_hashes += [
        distinct_hashes[0][:8] + bytes(8),
        bytes(8) + distinct_hashes[0][8:],
    ]
    distinct_hashes += [bytes(16), b"\xff" * 16]
    halves = [(1, 3), (2, 3), (2, 4)]  # neighbors with one equal half
    distinct_hashes += [bytes([*bytes(7), *pair, *bytes(7)]) for pair in halves]
    shard_hashes = [rng.choices(distinct_hashes, k=n) for n in (30, 0, 1, 25)]
    shard_hashes.append(rng.sample(distinct_hashes, len(distinct_hashes)))
    paths = [str(tmp_path / str(i)) for i in range(len(shard_hashes))]
    for path, hashes in zip(paths, shard_hashes, strict=True):
        deduplication.write_hashes(path, hashes)
        assert deduplication.count(path) == len(hashes)
    seen, kept = set(), []
    for hashes in shard_hashes:
        kept.append([])
        for number, each in enumerate(hashes):
            kept[-1] += [str(number)] if each not in seen else []
            seen.add(each)
    for dropped, hashes, expected in zip(
        deduplication.find(paths), shard_hashes, kept, strict=True
    ):
        statistics = corpus.Statistics()
        lines = [[str(i)] for i in range(len(hashes))]
        found = deduplication.without_duplicates(lines, dropped, statistics)
        assert [document[0] for document in found] == expected
        assert statistics.duplicate_documents == len(hashes) - len(expected)


def test_duplicates_are_counted_in_bytes_of_utf_8():
    statistics = corpus.Statistics()
    documents = [["caf\u00e9", "a"], ["b"]]
    found = deduplication.without_duplicates(documents, b"\1", statistics)
    assert list(found) == [["b"]]
    assert statistics.duplicate_bytes == 6 + 2  # with the ends of lines


def distinct(documents):
    """Returns the documents without duplicates: the first of equal ones."""
    first = {}
    for document in documents:
        words = " ".join(document).lower().split()
        first.setdefault(tuple(words), document)
    return list(first.values())


@pytest.fixture
def dedup_config(config):
    return dataclasses.replace(config, drop_duplicates=True)


def test_dropping_duplicates_gives_the_records_of_distinct_documents(
    dedup_config, tmp_path
):
    manifest = build(dedup_config, tmp_path / "out")
    counts = manifest["counts"]
    in_order = DOCUMENTS[::2] + DOCUMENTS[1::2]
    distinct_config = tiny_corpus.write(
        tmp_path / "distinct", distinct(in_order)
    )
    expected = build(distinct_config, tmp_path / "expected")["counts"]
    for prefix in ("pretrain_data", "held_out_data"):
        found, wanted = (
            rows_of((tmp_path / name).glob(f"{prefix}*"))
            for name in ("out", "expected")
        )
        assert sorted(found) == sorted(wanted)
    assert counts["documents"] == len(DOCUMENTS)
    assert counts["duplicate_documents"] == NUM_COPIES
    assert expected["documents"] == len(DOCUMENTS) - NUM_COPIES
    assert counts["tokens_read"] == expected["tokens_read"]
    assert counts["duplicate_bytes"] == sum(
        len(line) + 1
        for document in in_order
        if document not in distinct(in_order)
        for line in document
    )
