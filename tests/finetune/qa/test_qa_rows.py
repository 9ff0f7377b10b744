"""Rows of questions against the original's, and the bytes of tokens."""

import json

import golden_arrays
import multilingual
import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa import qa_rows
from electra_tf.finetune.qa.qa_files import Context, make_example
from electra_tf.model.tokenization import Vocabulary

DIRECTORY = golden_arrays.HERE / "golden/finetune"


@pytest.mark.parametrize("name", ["squad/train", "newsqa/dev"])
def test_rows_are_those_of_the_original(name):
    golden = json.loads((DIRECTORY / "features.json").read_text("utf-8"))
    tokens = [f"[unused{i}]" for i in range(30522)]  # but those below
    for piece, number in golden["vocabulary"].items():
        tokens[number] = piece
    task_name, split = name.split("/")
    task = tiny.task(
        task_name,
        DIRECTORY / "data_dir",
        longest=64,
        vocabulary=Vocabulary(tuple(tokens)),
        max_query_length=24,
        doc_stride=20,
    )
    is_training = split == "train"
    examples = task.get_examples(split)
    # One answer is not at the place that the file gives.
    assert sum(task.bad_rows.counts.values()) == is_training
    if is_training:
        # Differs: the original learns no answer with a no-break space.
        examples = [x for x in examples if "\xa0" not in x.answer_text]
    rows = list(task.featurize(examples, is_training=is_training))
    expected = [
        (example.eid, row)
        for example, rows in zip(examples, golden[name], strict=True)
        for row in rows
    ]
    labels = ("start_positions", "end_positions", "is_impossible")
    for row, (eid, golden_row) in zip(rows, expected, strict=True):
        ids, words = row["input_ids"].tolist(), row["word_numbers"]
        places = np.flatnonzero(words)
        found = {
            "input_ids": ids,
            "second": row["segment_ids"].tolist().index(1),
            "labels": [row[name] for name in labels],
            "words": (words[places] - 1).tolist(),
            "is_max_context": "".join(map(str, row["is_max_context"][places])),
        }
        if not is_training:
            found["labels"] = golden_row["labels"]  # the original has none
        assert (row["eid"], found) == (eid, golden_row)


TOKENIZER = TextTokenizer(tiny.VOCABULARY)


def _rows(context, answer="", *, length=16, is_training=False, **fields):
    start = context.lower().find(answer.split()[0]) if answer else 0
    located = ((answer, start),) * bool(answer)
    example = make_example(0, "is it good", Context(context), located=located)
    config = QAConfig(**{"max_query_length": 4, "doc_stride": 4, **fields})
    return [
        *qa_rows.rows_of(
            [example], TOKENIZER, config, length, is_training=is_training
        )
    ]


def test_a_context_without_tokens_still_makes_a_row():
    (row,) = _rows("\u200b", "\u200b")
    assert row["input_ids"].tolist()[-2:] == [tiny.VOCABULARY.sep_id] * 2
    assert not row["word_numbers"].any() and row["start_positions"] == 0


@pytest.mark.parametrize("stride", [1, 3, 8, 100])
def test_windows_cover_contexts_and_one_shows_a_token_best(stride):
    question_sizes, totals = [0, 2, 4, 3, 0], [0, 5, 40, 29, 8]
    windows = qa_rows.get_windows(question_sizes, totals, 14, stride)
    places = np.arange(11)[np.newaxis]
    is_best = qa_rows.is_max_context(windows, places).numpy()
    for question, total in enumerate(totals):
        mine = windows.questions.numpy() == question
        room = 14 - 3 - question_sizes[question]
        step = min(room, stride)
        starts = range(0, max(0, total - room) + step, step)
        sizes = [min(room, total - start) for start in starts]
        assert windows.starts.numpy()[mine].tolist() == [*starts]
        assert windows.sizes.numpy()[mine].tolist() == sizes
        scores = np.full((len(sizes), total), -1.0)
        for row, start, size in zip(scores, starts, sizes, strict=True):
            left = np.arange(size)
            row[start : start + size] = np.minimum(left, left[::-1])
            row[start : start + size] += 0.01 * size
        best = scores.argmax(0)
        for number, start in enumerate(starts):
            part = best[start : start + sizes[number]]
            found = is_best[mine][number, : len(part)]
            np.testing.assert_array_equal(found, part == number)


@pytest.mark.parametrize(
    ("context", "answer", "tokens"),
    [
        ("a (film) plot", "film", "film"),
        ("a (bad-films) plot", "films", "films"),
        ("the FILM.", "film", "film"),
        ("very  (good\n film) plot", "good film", "goodfilm"),
    ],
)
def test_an_answer_is_found_within_its_words(context, answer, tokens):
    (row,) = _rows(context, answer, length=96, doc_stride=32, is_training=True)
    start, end = row["start_positions"], row["end_positions"]
    ids = row["input_ids"][start : end + 1]
    found = "".join(tiny.VOCABULARY.tokens[i] for i in ids)
    assert found.replace("##", "") == tokens


@pytest.mark.parametrize("is_sentence_pieces", [False, True])
def test_borders_of_tokens_are_in_order(is_sentence_pieces, tmp_path):
    tokenizer = TOKENIZER
    if is_sentence_pieces:
        tokenizer = TextTokenizer(multilingual.learn_vocabulary(tmp_path))
    texts = (*multilingual.SENTENCES, *multilingual.AWKWARD, "film\u0301,")
    words = Context(" ".join(texts)).words
    known = qa_rows.tokens_of_words(words, tokenizer.in_graph)
    for word, ids in zip(words, tokenizer.tokenize(words), strict=True):
        for places in known[word][:2]:
            assert len(places) == len(ids)
            assert (np.diff(places) >= 0).all(), word
            assert ((places >= 0) & (places <= len(word.encode()))).all()
    *_, before, _ = known["film\u0301,"].ends
    assert before == len("film\u0301".encode())  # with its mark
    if not is_sentence_pieces:
        return
    for word, borders in (
        # Tokens that share a character all have it.
        ("\u65e5\u2026", [(3, 6)] * 3),
        ("(\ufb01", [(1, 4)] * 2),
        # White space within a word is not of the tokens around it.
        ("\u65e5\u3000\u65e5", [(0, 3), (6, 3), (6, 9)]),
    ):
        tokens = qa_rows.tokens_of_words([word], tokenizer.in_graph)[word]
        found = [*zip(tokens.starts, tokens.ends, strict=True)]
        assert found[-len(borders) :] == borders
