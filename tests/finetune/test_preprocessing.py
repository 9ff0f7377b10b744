import dataclasses

import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.finetune import preprocessing


def test_a_row_is_cls_text_sep_text_sep():
    row = preprocessing.join(
        tiny.VOCABULARY, np.array([7, 8]), np.array([9], np.int64)
    )
    assert row["input_ids"].tolist() == [2, 7, 8, 3, 9, 3]
    assert row["segment_ids"].tolist() == [0, 0, 0, 0, 1, 1]
    row = preprocessing.join(tiny.VOCABULARY, np.array([], np.int32))
    assert row["input_ids"].tolist() == [2, 3]
    assert {x.dtype for x in row.values()} == {np.dtype(np.int32)}


def test_rows_of_texts_and_pairs_truncate_the_first_text(monkeypatch):
    monkeypatch.setattr(preprocessing, "_TEXTS_AT_ONCE", 2)
    tokenizer = preprocessing.TextTokenizer(tiny.VOCABULARY)
    columns = ["good film", "", "a plot is bad"], ["bad", "very", "the"]
    for count, length in ((1, 5), (2, 8)):
        rows = tokenizer.rows(*columns[:count], length=length)
        texts = zip(*map(tokenizer.tokenize, columns[:count]), strict=True)
        for row, (first, *second) in zip(rows, texts, strict=True):
            room = length - 2 - sum(1 + len(x) for x in second)
            expected = preprocessing.join(
                tiny.VOCABULARY, first[:room], *second
            )
            assert row.keys() == expected.keys()
            for name, values in row.items():
                assert values.dtype == np.int32
                np.testing.assert_array_equal(values, expected[name])


def test_each_text_has_its_own_tokens(monkeypatch):
    monkeypatch.setattr(preprocessing, "_TEXTS_AT_ONCE", 2)
    tokenizer = preprocessing.TextTokenizer(tiny.VOCABULARY)
    texts = ["Good films", "", "a plot", "zebra", "the BAD"]
    ids = tiny.VOCABULARY.ids
    assert [x.tolist() for x in tokenizer.tokenize(texts)] == [
        [ids["good"], ids["film"], ids["##s"]],
        [],
        [ids["a"], ids["plot"]],
        [ids["[UNK]"]],
        [ids["the"], ids["bad"]],
    ]
    assert tokenizer.tokenize([]) == []


@pytest.mark.parametrize("is_known", [True, False])
def test_case_and_accents_are_dropped_unless_the_weights_say_otherwise(
    is_known,
):
    switch = False if is_known else None
    weights = dataclasses.replace(
        tiny.weights(), do_lower_case=switch, strip_accents=switch
    )
    (found,) = preprocessing.TextTokenizer.of(weights).tokenize(["Good"])
    expected = tiny.VOCABULARY.ids["[UNK]" if is_known else "good"]
    assert found.tolist() == [expected]


def test_rows_that_were_cut_are_counted_once(capsys):
    tokenizer = preprocessing.TextTokenizer(tiny.VOCABULARY)
    texts = ["good " * 9, "bad film", "a plot " * 7]
    assert [len(x["input_ids"]) for x in tokenizer.rows(texts, length=8)] == [
        *(8, 4, 8)
    ]
    list(tokenizer.rows(texts, length=8))
    (line,) = capsys.readouterr().err.splitlines()
    assert "2 of 3" in line and "max_seq_length=8" in line
