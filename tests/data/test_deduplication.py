"""The first of equal documents stays, in whatever buckets they are compared."""

import dataclasses
import random

import pytest
import tiny_corpus
from tiny_corpus import (
    DOCUMENTS,
    NUM_COPIES,
    build,
    contents,
    rows_of,
    stop_after,
)

from electra_tf.data import corpus, deduplication, shards


def equal(one, other, *, do_lower_case=True):
    return deduplication.document_hash(
        one, do_lower_case=do_lower_case
    ) == deduplication.document_hash(other, do_lower_case=do_lower_case)


def test_white_space_and_unseen_case_make_no_difference():
    assert equal(["one  two", "three"], ["one", "two\tthree"])
    assert equal(["caf\u00e9"], ["cafe\u0301"])
    assert equal(["One"], ["one"])
    assert not equal(["One"], ["one"], do_lower_case=False)
    assert not equal(["one two"], ["onetwo"])
    assert not equal(["one"], ["one one"])


@pytest.mark.parametrize("bucket", [3, 50, 10**6])
def test_all_but_the_first_are_found(tmp_path, monkeypatch, bucket):
    monkeypatch.setattr(deduplication, "BUCKET_DOCUMENTS", bucket)
    rng = random.Random(bucket)
    kinds = [rng.randbytes(16) for _ in range(40)]
    kinds += [kinds[0][:8] + bytes(8), bytes(8) + kinds[0][8:]]
    kinds += [bytes(16), b"\xff" * 16]
    halves = [(1, 3), (2, 3), (2, 4)]  # neighbours that are half the same
    kinds += [bytes([*bytes(7), *pair, *bytes(7)]) for pair in halves]
    texts = [rng.choices(kinds, k=n) for n in (30, 0, 1, 25)]
    texts.append(rng.sample(kinds, len(kinds)))
    paths = [str(tmp_path / str(i)) for i in range(len(texts))]
    for path, hashes in zip(paths, texts, strict=True):
        deduplication.write_hashes(path, hashes)
        assert deduplication.count(path) == len(hashes)
    seen, kept = set(), []
    for hashes in texts:
        kept.append([])
        for number, each in enumerate(hashes):
            kept[-1] += [str(number)] if each not in seen else []
            seen.add(each)
    for dropped, hashes, expected in zip(
        deduplication.find(paths), texts, kept, strict=True
    ):
        statistics = corpus.Statistics()
        lines = [[str(i)] for i in range(len(hashes))]
        found = deduplication.without_duplicates(lines, dropped, statistics)
        assert [document[0] for document in found] == expected
        assert statistics.duplicate_documents == len(hashes) - len(expected)


def distinct(documents):
    """Returns the first of equal documents."""
    first = {}
    for document in documents:
        words = " ".join(document).lower().split()
        first.setdefault(tuple(words), document)
    return list(first.values())


@pytest.fixture
def dropping(config):
    return dataclasses.replace(config, drop_duplicates=True)


def test_the_records_are_those_of_the_distinct_documents(dropping, tmp_path):
    manifest = build(dropping, tmp_path / "out")
    counts, lengths = manifest["counts"], manifest["document_tokens"].values()
    in_order = DOCUMENTS[::2] + DOCUMENTS[1::2]
    plain = tiny_corpus.write(tmp_path / "distinct", distinct(in_order))
    expected = build(plain, tmp_path / "expected")["counts"]
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
    sizes = [len(" ".join(d).split()) for d in distinct(DOCUMENTS)]
    assert sum(each["documents"] for each in lengths) == len(sizes)
    assert min(each["min"] for each in lengths) == min(sizes)
    assert max(each["max"] for each in lengths) == max(sizes)


def test_a_stopped_search_goes_on(
    dropping, tmp_path, monkeypatch, small_shards
):
    whole, out = tmp_path / "whole", tmp_path / "out"
    manifest = build(dropping, whole)
    for name in ("write_hashes", "build"):
        with monkeypatch.context() as patch:
            patch.setattr(shards, name, stop_after(getattr(shards, name), 2))
            with pytest.raises(KeyboardInterrupt):
                build(dropping, out)
    left = [path.suffix for path in (out / ".parts").iterdir()]
    assert left.count("") == 2
    assert left.count(".hashes") > 2
    monkeypatch.setattr(shards, "write_hashes", None)
    assert build(dropping, out) == manifest
    assert contents(out) == contents(whole)
