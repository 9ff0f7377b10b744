import numpy as np
import tiny_finetuning as tiny

from electra_tf.finetune import preprocessing


def _one_by_one(first, second, size):
    """Cuts as the original does."""
    first, second = list(first), list(second)
    while len(first) + len(second) > size:
        (first if len(first) > len(second) else second).pop()
    return first, second


def test_a_pair_is_cut_as_by_the_original_token_by_token():
    for n in range(9):
        for m in range(9):
            for size in range(1, 14):
                pair = (np.arange(n), np.arange(m))
                found = preprocessing.truncate_pair(*pair, size)
                expected = _one_by_one(*pair, size)
                assert [list(x) for x in found] == [*map(list, expected)]


def test_a_row_is_cls_text_sep_text_sep():
    row = preprocessing.join(
        tiny.VOCABULARY, np.array([7, 8]), np.array([9], np.int64)
    )
    assert row["input_ids"].tolist() == [2, 7, 8, 3, 9, 3]
    assert row["segment_ids"].tolist() == [0, 0, 0, 0, 1, 1]
    row = preprocessing.join(tiny.VOCABULARY, np.array([], np.int32))
    assert row["input_ids"].tolist() == [2, 3]
    assert {x.dtype for x in row.values()} == {np.dtype(np.int32)}


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
