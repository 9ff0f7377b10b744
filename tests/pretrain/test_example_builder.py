"""Examples hold the text in order; the original's rules give its examples."""

import doctest
import json
import pathlib
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.model import tokenization
from electra_tf.pretrain import example_builder
from electra_tf.pretrain.example_builder import ExampleBuilder

SHARED = pathlib.Path(__file__).parents[3] / "shared"
GOLDEN = SHARED / "golden" / "data"
NAMES = ["seq128", "seq64_noblank", "seq32_cased_noaccentstrip", "seq512"]


def pack(lines, max_seq_length, seed, **kwargs):
    builder = ExampleBuilder(max_seq_length, random.Random(seed), **kwargs)
    examples = [e for line in lines for e in builder.add_line(line)]
    return examples + builder.end_document()


def number_lines(lengths):
    ids = iter(range(sum(lengths)))
    return [[next(ids) for _ in range(length)] for length in lengths]


def num_tokens(example):
    special = 3 if example.second else 2
    return len(example.first) + len(example.second) + special


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 90), max_size=30),
    st.integers(5, 64),
    st.integers(0, 2**32),
)
def test_no_token_is_lost_moved_or_doubled(lengths, max_seq_length, seed):
    examples = pack(number_lines(lengths), max_seq_length, seed)
    text = [i for example in examples for i in example.first + example.second]
    assert text == list(range(sum(lengths)))
    assert all(example.first for example in examples)
    assert all(num_tokens(e) <= max_seq_length for e in examples)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 90), max_size=30),
    st.integers(5, 64),
    st.integers(0, 2**32),
)
def test_the_originals_examples_hold_no_token_twice(lengths, length, seed):
    examples = pack(number_lines(lengths), length, seed, carry=False)
    text = [i for example in examples for i in example.first + example.second]
    assert len(set(text)) == len(text) <= sum(lengths)
    assert all(num_tokens(example) <= length for example in examples)


@pytest.mark.parametrize("line_length", [7, 30, 91, 50_000])
def test_shares_are_the_nominal_ones_whatever_the_lines(line_length):
    lines = number_lines([line_length] * (200_000 // line_length))
    examples = pack(lines, 128, seed=1)[:-1]
    lengths = np.array([num_tokens(example) for example in examples])
    two = np.mean([bool(example.second) for example in examples])
    assert np.mean(lengths == 128) == pytest.approx(0.95, abs=0.02)
    assert 5 <= lengths.min() < 30
    assert two == pytest.approx(0.9, abs=0.03)


def test_segments_end_with_lines_where_lines_are_short():
    lines = number_lines([10] * 2000)
    examples = pack(lines, 128, seed=3)
    ends = [e.first[-1] + 1 for e in examples if e.second]
    assert np.mean([end % 10 == 0 for end in ends]) > 0.9


def test_an_empty_document_gives_no_example():
    assert pack([[], []], 128, seed=0) == []


def test_the_docstring_example_is_true():
    assert doctest.testmod(example_builder).attempted
    assert not doctest.testmod(example_builder).failed


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the original's records")
@pytest.mark.parametrize("name", NAMES)
def test_original_packing_gives_the_originals_records(name):
    meta = json.loads((GOLDEN / "meta.json").read_text())[name]
    vocab_file = SHARED / "data" / "vocab" / "bert-base-uncased-vocab.txt"
    tokenizer = tokenization.FullTokenizer(
        str(vocab_file), meta["do_lower_case"], meta["strip_accents"]
    )
    builder = ExampleBuilder(
        meta["max_seq_length"], random.Random(meta["seed"]), carry=False
    )
    examples = []
    text = (GOLDEN / "text200.txt").read_text(encoding="utf-8")
    for line in map(str.strip, text.split("\n")):
        if line:
            tokens = tokenizer.tokenize(line)
            ids = tokenizer.convert_tokens_to_ids(tokens)
            examples += builder.add_line(list(ids))
        elif meta["blanks_separate_docs"]:
            examples += builder.end_document()
    examples += builder.end_document()
    golden = np.load(GOLDEN / f"{name}.npz")
    assert len(examples) == meta["n_examples"]
    for row, (first, second) in enumerate(examples):
        ids = [101, *first, 102, *second] + [102] * bool(second)
        kept = golden["input_mask"][row].astype(bool)
        assert golden["input_ids"][row][kept].tolist() == ids
        assert golden["segment_ids"][row].sum() == len(ids) - len(first) - 2
