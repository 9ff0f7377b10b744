"""Rows against those of the original."""

import json

import golden_arrays
import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.config.qa import QAConfig
from electra_tf.finetune.examples import EID, TOKENS
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa import qa_reading
from electra_tf.finetune.qa.qa_rows import SPECS, RowMaker
from electra_tf.finetune.readers.reading import BadRows
from electra_tf.model.tokenization import Vocabulary

DATA = golden_arrays.HERE / "golden/finetune/data_dir/finetuning_data"
FULL = golden_arrays.FULL / "finetune"
CONFIG = {"max_query_length": 24, "doc_stride": 20}
EXCERPT = ("squad/train", "newsqa/dev")
OTHERS = ("squad/dev", "squadv1/train", "squadv1/dev", "newsqa/train")


def _excerpt():
    """Returns a vocabulary of the pieces that matter, and the rows."""
    path = golden_arrays.HERE / "golden/finetune/features.json"
    golden = json.loads(path.read_text("utf-8"))
    tokens = [f"[unused{i}]" for i in range(30522)]
    for piece, number in golden["vocabulary"].items():
        tokens[number] = piece
    return Vocabulary(tuple(tokens)), golden


def _examples(task, path):
    is_training = path.name.startswith("train")
    bad_rows = BadRows(skip=False)
    if task == "newsqa":
        paragraphs = qa_reading.mrqa_paragraphs(path, bad_rows)
        parse = qa_reading.mrqa_question
    else:
        paragraphs = qa_reading.squad_paragraphs(path)
        parse = qa_reading.squad_question
    examples = qa_reading.read_examples(
        path, paragraphs, parse, bad_rows=bad_rows, is_training=is_training
    )
    return examples, bad_rows


def _compared(row):
    """Returns a row as the excerpt has it."""
    ids, words = row["input_ids"].tolist(), row["word_numbers"]
    places = np.flatnonzero(words)
    return {
        "input_ids": ids,
        "second": row["segment_ids"].tolist().index(1),
        "labels": [
            row[name]
            for name in ("start_positions", "end_positions", "is_impossible")
        ],
        "words": (words[places] - 1).tolist(),
        "is_max_context": "".join(map(str, row["is_max_context"][places])),
    }


@pytest.mark.parametrize("split", EXCERPT)
def test_rows_are_those_of_the_original(split):
    vocabulary, golden = _excerpt()
    task, name = split.split("/")
    examples, bad_rows = _examples(task, next((DATA / task).glob(f"{name}.*")))
    # Two answers do not stand where the file has them.
    assert sum(bad_rows.counts.values()) == (2 if name == "train" else 0)
    maker = RowMaker(TextTokenizer(vocabulary), QAConfig(**CONFIG), 64)
    rows = list(maker.rows(examples, is_training=name == "train"))
    expected = [
        (eid, row) for eid, rows in enumerate(golden[split]) for row in rows
    ]
    assert len(rows) == len(expected)
    for row, (eid, there) in zip(rows, expected, strict=True):
        assert row["eid"] == eid
        found = _compared(row)
        if name != "train":
            found["labels"] = there["labels"]  # there are none there
        assert found == there


@pytest.mark.skipif(not FULL.exists(), reason="needs the golden arrays")
@pytest.mark.parametrize("split", OTHERS)
def test_rows_of_all_splits_are_those_of_the_original(split):
    vocabulary = Vocabulary.from_file(str(golden_arrays.VOCAB_FILE))
    task, name = split.split("/")
    directory = FULL / "data_dir/finetuning_data" / task
    examples, _ = _examples(task, next(directory.glob(f"{name}.*")))
    maker = RowMaker(TextTokenizer(vocabulary), QAConfig(**CONFIG), 64)
    rows = iter(maker.rows(examples, is_training=name == "train"))
    golden = json.loads((FULL / "features.json").read_text("utf-8"))[split]
    for example, there in zip(examples, golden["rows"], strict=True):
        assert list(example.words) == there["example"]["doc_tokens"]
        for features in there["features"]:
            row = next(rows)
            size = len(row["input_ids"])
            assert features["input_ids"][:size] == row["input_ids"].tolist()
            assert sum(features["input_mask"]) == size
            if name == "train":
                for label in ("start_positions", "end_positions"):
                    assert features[f"{task}_{label}"] == row[label]
            else:
                words = features[f"{task}_token_to_orig_map"]
                found = {
                    str(i): n - 1
                    for i, n in enumerate(row["word_numbers"].tolist())
                    if n
                }
                assert found == words
    assert next(rows, None) is None


def _maker(length=16, **fields):
    fields = {"max_query_length": 4, "doc_stride": 4, **fields}
    return RowMaker(TextTokenizer(tiny.VOCABULARY), QAConfig(**fields), length)


def _example(context, answer="", question="is it good"):
    content = {"id": "q", "question": question}
    if answer:
        start = context.index(answer)
        content["answers"] = [{"text": answer, "answer_start": start}]
    question = qa_reading.squad_question(content)
    return qa_reading.example(0, qa_reading.Context(context), question)


def test_the_columns_are_those_that_are_told():
    (row,) = _maker().rows([_example("a film")], is_training=False)
    assert row.keys() == {spec.name for spec in SPECS}
    assert {*TOKENS, EID} <= {*SPECS}


def test_windows_without_the_answer_are_left_out_on_request():
    example = _example("a film is a very good film the plot was bad", "bad")
    for is_training in (True, False):
        rows = list(_maker().rows([example], is_training=is_training))
        starts = [row["start_positions"] for row in rows]
        # The second window shows tokens 4 to 10, after [CLS] is it good [SEP].
        assert starts == [0, 5 + 10 - 4]
    maker = _maker(drop_unanswered_windows=True)
    (row,) = maker.rows([example], is_training=True)
    assert row["start_positions"] == row["end_positions"] == 5 + 10 - 4
    assert row["word_numbers"].size == 0
    assert (maker.num_answers, maker.num_lacking) == (1, 1)
    assert len(list(maker.rows([example], is_training=False))) == 2


def test_a_context_without_tokens_is_answered_all_the_same():
    (row,) = _maker().rows([_example("\u200b", "\u200b")], is_training=False)
    assert row["input_ids"].tolist()[-2:] == [tiny.VOCABULARY.sep_id] * 2
    assert not row["word_numbers"].any() and row["start_positions"] == 0


def test_a_long_question_is_cut():
    example = _example("a film", question="the plot is very bad film")
    (row,) = _maker().rows([example], is_training=False)
    assert row["segment_ids"].tolist() == [0] * 6 + [1] * 3
