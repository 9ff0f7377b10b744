"""The first of equal documents is kept; at least one document is held out."""

import pathlib
import random

import numpy as np
import pytest

from electra_tf.data import corpus, selection


def test_documents_are_equal_up_to_white_space_and_ignored_case():
    for one, other, lower, are_equal in (
        (["one  two", "three"], ["one", "two\tthree"], True, True),
        (["caf\u00e9"], ["cafe\u0301"], True, True),
        (["One"], ["one"], True, True),
        (["One"], ["one"], False, False),
        (["one two"], ["onetwo"], True, False),
    ):
        first, second = (
            selection.document_hash(x, do_lower_case=lower)
            for x in (one, other)
        )
        assert (first == second) == are_equal, (one, other)


@pytest.mark.parametrize("bucket", [3, 50, 10**6])
def test_all_but_the_first_of_equal_documents_are_found(
    tmp_path, monkeypatch, bucket
):
    monkeypatch.setattr(selection, "BUCKET_DOCUMENTS", bucket)
    rng = random.Random(bucket)
    halves = [bytes(8), b"\xff" * 8, *(rng.randbytes(8) for _ in range(5))]
    hashes = [first + last for first in halves for last in halves]
    seen, shards = set(), [rng.choices(hashes, k=n) for n in (30, 0, 1, 99)]
    paths = [str(tmp_path / str(i)) for i in range(len(shards))]
    for path, shard in zip(paths, shards, strict=True):
        pathlib.Path(path).write_bytes(b"".join(shard))
    found = selection.find_repeated(paths)
    for dropped, shard in zip(found, shards, strict=True):
        counts = corpus.Counts()
        documents = [[str(i)] for i in range(len(shard))]
        kept = list(selection.without_duplicates(documents, dropped, counts))
        assert kept == [
            document
            for document, one in zip(documents, shard, strict=True)
            if not (one in seen or seen.add(one))
        ]
        assert counts["duplicate_documents"] == len(shard) - len(kept)


def split(documents, held_out_fraction, seed=0):
    """Splits a corpus of one shard."""
    splitter = selection.Splitter(held_out_fraction, seed)
    yield from splitter.assign(documents)
    yield from selection.decide(splitter.undecided, splitter.splits)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("number", [2, 3, 50])
@pytest.mark.parametrize("seed", range(5))
def test_one_document_at_least_is_held_out(number, copies, seed):
    documents = [[str(i)] for i in range(number)] * copies
    found = list(split(documents, 1e-9, seed))
    assert sorted(d.lines for d in found) == sorted(documents)
    lines = [d.lines for d in found if d.split == "held_out"]
    assert len(lines) == copies
    assert lines == lines[:1] * copies


@pytest.mark.parametrize(
    ("documents", "fraction"), [([["a"], ["a"]], 0.01), ([["a"], ["b"]], 0.0)]
)
def test_nothing_is_held_out_of_one_document_or_for_a_fraction_of_0(
    documents, fraction
):
    assert [x.split for x in split(documents, fraction)] == ["train", "train"]


def test_no_text_of_a_pair_is_on_both_sides():
    rng = np.random.default_rng(0)
    rows = [(f"q{a}", f"s{b}") for a, b in rng.integers(600, size=(400, 2))]
    sides = selection.hold_out_rows(rows, 0.3)
    texts = ([], [])
    for row, is_dev in zip(rows, sides, strict=True):
        texts[is_dev].extend(row)
    assert not {*texts[0]} & {*texts[1]} and 50 < sum(sides) < 200
    again = selection.hold_out_rows([row[::-1] for row in rows[::-1]], 0.3)
    assert again == sides[::-1]
