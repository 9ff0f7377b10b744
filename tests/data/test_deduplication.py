"""The first of equal documents is kept, whatever the size of the buckets."""

import dataclasses
import pathlib
import random

import pytest
import tiny_corpus
from tiny_corpus import DOCUMENTS, NUM_COPIES, build, rows_of

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
    halves = [bytes(8), b"\xff" * 8, *(rng.randbytes(8) for _ in range(5))]
    hashes = [first + last for first in halves for last in halves]
    seen, shards = set(), [rng.choices(hashes, k=n) for n in (30, 0, 1, 99)]
    paths = [str(tmp_path / str(i)) for i in range(len(shards))]
    for path, shard in zip(paths, shards, strict=True):
        pathlib.Path(path).write_bytes(b"".join(shard))
    found = deduplication.find_repeated(paths)
    for dropped, shard in zip(found, shards, strict=True):
        counts = corpus.Counts()
        documents = [[str(i)] for i in range(len(shard))]
        kept = list(
            deduplication.without_duplicates(documents, dropped, counts)
        )
        assert kept == [
            document
            for document, one in zip(documents, shard, strict=True)
            if not (one in seen or seen.add(one))
        ]
        assert counts["duplicate_documents"] == len(shard) - len(kept)


def test_dropping_duplicates_gives_the_records_of_distinct_documents(
    config, tmp_path
):
    config = dataclasses.replace(config, drop_duplicates=True)
    counts = build(config, tmp_path / "out")["counts"]
    first = {}
    for document in DOCUMENTS[::2] + DOCUMENTS[1::2]:
        words = " ".join(document).lower().split()
        first.setdefault(tuple(words), document)
    distinct = tiny_corpus.write(tmp_path / "distinct", [*first.values()])
    build(distinct, tmp_path / "expected")
    for prefix in ("pretrain_data", "held_out_data"):
        found, wanted = (
            rows_of((tmp_path / name).glob(f"{prefix}*"))
            for name in ("out", "expected")
        )
        assert sorted(found) == sorted(wanted)
    assert counts["documents"] == len(DOCUMENTS)
    assert counts["duplicate_documents"] == NUM_COPIES
