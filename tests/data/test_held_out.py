"""Equal documents go to one split, and at least one document is held out."""

import collections

import numpy as np
import pytest

from electra_tf.data import held_out


def split(documents, *, held_out_fraction, seed=0):
    """Splits a corpus of one shard."""
    splitter = held_out.Splitter(held_out_fraction, seed)
    yield from splitter.assign(documents)
    yield from held_out.decide(splitter.undecided, splitter.splits)


def test_equal_documents_go_to_the_same_split():
    documents = [[str(i % 20)] for i in range(200)]
    splits = collections.defaultdict(set)
    for document in split(documents, held_out_fraction=0.3, seed=5):
        splits[document.lines[0]].add(document.split)
    assert all(len(sides) == 1 for sides in splits.values())
    assert {side for sides in splits.values() for side in sides} == {
        "train",
        "held_out",
    }


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("number", [2, 3, 50])
@pytest.mark.parametrize("seed", range(5))
def test_one_document_at_least_is_held_out(number, copies, seed):
    documents = [[str(i)] for i in range(number)] * copies
    found = list(split(documents, held_out_fraction=1e-9, seed=seed))
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
    found = split(documents, held_out_fraction=fraction)
    assert [document.split for document in found] == ["train", "train"]


def test_the_share_held_out_is_the_fraction():
    documents = [[str(i)] for i in range(5000)]
    found = split(documents, held_out_fraction=0.05)
    share = np.mean([document.split == "held_out" for document in found])
    assert share == pytest.approx(0.05, abs=0.01)


def test_no_text_of_a_pair_is_on_both_sides():
    rng = np.random.default_rng(0)
    rows = [(f"q{a}", f"s{b}") for a, b in rng.integers(600, size=(400, 2))]
    sides = held_out.hold_out_rows(rows, 0.3)
    texts = ([], [])
    for row, is_dev in zip(rows, sides, strict=True):
        texts[is_dev].extend(row)
    assert not {*texts[0]} & {*texts[1]} and 50 < sum(sides) < 200
    again = held_out.hold_out_rows([row[::-1] for row in rows[::-1]], 0.3)
    assert again == sides[::-1]
