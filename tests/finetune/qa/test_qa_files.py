"""Readers of SQuAD, MRQA and tables."""

import functools
import json

import pytest
import tiny_finetuning as tiny

from electra_tf.finetune.qa.qa_files import Context
from electra_tf.util.errors import UserError

ROW = {"question": "what", "context": "it is a good film", "answer": "good"}
CONTEXT = "It was  a good\u202ffilm, they\u00a0said."

_task = functools.partial(tiny.task, "qa", max_query_length=6, doc_stride=8)


def _question(start=10, **fields):
    answer = {"text": "good", "answer_start": start}
    return {"id": "q1", "question": "How?", "answers": [answer], **fields}


def _squad(*questions):
    paragraph = {"context": CONTEXT, "qas": list(questions)}
    return json.dumps({"data": [{"paragraphs": [paragraph]}]})


def _mrqa(**fields):
    detected = {"text": "film", "char_spans": [[15, 18], [0, 3]]}
    question = {
        "qid": "m1",
        "id": "another name",
        "question": "What?",
        "answers": ["film", "a film"],
        "detected_answers": [detected],
    }
    return {"context": CONTEXT, "qas": [{**question, **fields}]}


def _read(tmp_path, name, content, split="train", **leaves):
    """Writes a file and reads it as training or dev rows."""
    path = tiny.write(tmp_path, "own", name, content)
    files = {"train_file": str(path), f"{split}_file": str(path)}
    task = _task(tmp_path, **files, **leaves)
    return task.get_examples(split), task.bad_rows.counts.get(str(path), 0)


def _words(example):
    return example.words[example.first_word : example.last_word + 1]


NEAREST = "it (good-bad-good), it"


@pytest.mark.parametrize(
    ("context", "answer", "start", "place"),
    [
        (CONTEXT, "good film", 10, (3, 4, 0, 4)),
        (CONTEXT, "GOOD", 10, (3, 3, 0, 4)),
        (CONTEXT, "film, they\u00a0said", 15, (4, 5, 0, 9)),
        (CONTEXT, "was", 4, (1, 1, 0, 3)),  # one character off
        (CONTEXT, "bad", 10, ()),
        (CONTEXT, "good", 0, ()),
        (NEAREST, "good", 3, (1, 1, 1, 5)),
        (NEAREST, "good", 12, (1, 1, 10, 14)),
    ],
)
def test_an_answer_is_looked_for_in_the_words_at_its_place(
    context, answer, start, place
):
    assert tuple(Context(context).find(answer, start).values()) == place


def test_squad_is_read(tmp_path):
    nothing = _question(id="q2", answers=[], is_impossible=True)
    answers = [{"text": "film", "answer_start": 15}, *_question()["answers"]]
    content = _squad(_question(), nothing, _question(id=3, answers=answers))
    read = functools.partial(_read, tmp_path, "a.json", content)
    (one, two, three), _ = read(has_unanswerable=True)
    assert (one.eid, one.qas_id, one.question) == (0, "q1", "How?")
    # White space is that of the original.
    words = ("It", "was", "a", "good", "film,", "they\u00a0said.")
    assert one.words == words
    assert one.answers == _words(one) == ("good",)
    assert two.is_impossible and two.answers == () and not two.is_found
    assert three.qas_id == "3" and three.answers == ("film", "good")
    assert _words(three) == ("film,",) and three.answer_text == "film"
    with pytest.raises(UserError, match="question q2: "):
        read()


@pytest.mark.parametrize("header", [[], [{"header": {"dataset": "x"}}]])
def test_mrqa_is_read(tmp_path, header):
    (only,), _ = _read(tmp_path, "a.jsonl", [*header, _mrqa()])
    assert (only.qas_id, only.question) == ("m1", "What?")
    assert only.answers == ("film", "a film") and only.answer_text == "film"
    assert _words(only) == ("film,",)


def test_an_answer_that_is_not_there_is_not_learnt_but_evaluated(tmp_path):
    wrong = [{"text": "bad", "answer_start": 10}]
    content = _squad(_question(id="q0", answers=wrong), _question())
    (only,), count = _read(tmp_path, "a.json", content)
    assert only.qas_id == "q1" and only.eid == 0 and count == 1
    (first, second), count = _read(tmp_path, "a.json", content, "dev")
    assert first.answers == ("bad",) and not first.is_found and count == 0
    assert (first.eid, second.eid) == (0, 1)


@pytest.mark.parametrize(
    ("split", "make", "bad", "place"),
    [
        ("train", _question, {"question": " "}, "question q1"),
        ("train", _question, {"answers": [7]}, "paragraph 1"),
        ("dev", _question, {"id": "good"}, "question good"),
        ("train", _mrqa, {"question": ""}, "line 2"),
        ("train", dict, {"answer": "plot"}, "line 2"),
        ("train", dict, {"answer": None}, "line 2"),
        ("train", dict, {"answer_start": 2}, "line 2"),
        ("train", dict, {"answer_start": [1, 2]}, "line 2"),
        ("dev", dict, {"id": "good"}, "line 2"),
    ],
)
def test_a_bad_question_has_its_place_or_is_skipped(
    split, make, bad, place, tmp_path
):
    row = ROW if make is dict else {}
    name = "qid" if make is _mrqa else "id"
    content = [make(**{**row, name: "good"}), make(**{**row, **bad})]
    name = "a.jsonl"
    if make is _question:
        name, content = "a.json", _squad(*content)
    with pytest.raises(UserError, match=f"{name}, .*{place}"):
        _read(tmp_path, name, content, split)
    (example,), count = _read(
        tmp_path, name, content, split, skip_bad_rows=True
    )
    assert example.qas_id == "good" and count == 1


def test_answers_may_be_lists_with_their_places(tmp_path):
    answers = {"text": ["a good", "good"], "answer_start": [6, 8]}
    (example,), _ = _read(
        tmp_path,
        "a.jsonl",
        [{**ROW, "answers": answers}],
        answer_column="answers.text",
        answer_start_column="answers.answer_start",
    )
    assert _words(example) == ("a", "good")
    assert example.answers == ("a good", "good")


@pytest.mark.parametrize("wrap", [list, lambda rows: {"data": rows}])
@pytest.mark.parametrize(
    "answers",
    [
        {"answer": "good", "answer_start": 13},
        {"answers": {"answer_start": [13, 0], "text": ["good", "good"]}},
        {"answers": [{"text": "good", "answer_start": 13}]},
    ],
)
def test_flat_json_is_read_as_its_rows(wrap, answers, tmp_path):
    row = {"id": "x", "question": "what", "context": "good it is a good film"}
    content = json.dumps(wrap([{**row, **answers}, ROW | {"answers": []}]))
    leaves = {"has_unanswerable": True, "skip_bad_rows": True}
    (first, *_), _ = _read(tmp_path, "a.json", content, **leaves)
    assert (first.qas_id, first.first_word) == ("x", 4)
    assert {*first.answers} == {"good"}
    bad = json.dumps(wrap([{**row, **answers}, {**row, "context": 3}]))
    with pytest.raises(UserError, match="a.json, entry 2"):
        _read(tmp_path, "a.json", bad)


@pytest.mark.parametrize(
    ("context", "start", "place"),
    [
        ("\U0001f680 it was very good", 15, 14),
        ("\U0001f680\U0001f680 so good: good", 14, 12),
        ("\U0001f680 it was very good", 14, 14),
        ("it was very good", 12, 12),
    ],
)
def test_offsets_in_utf_16_are_converted(
    context, start, place, tmp_path, capsys
):
    answer = {"text": "good", "answer_start": start}
    paragraph = {"context": context, "qas": [_question(answers=[answer])] * 2}
    content = json.dumps({"data": [{"paragraphs": [paragraph]}]})
    (example, _), _ = _read(tmp_path, "a.json", content)
    before = " ".join((*example.words[: example.first_word], ""))
    assert len(before) + example.answer_start == place
    warnings = capsys.readouterr().err.count("WARNING")
    assert warnings == (start != place)


@pytest.mark.parametrize(
    ("context", "answer", "given", "start"),
    [
        ("good it is a good film", "good", 13, 13),
        ("good it is a good film", "good", None, 0),
        # Without a place, an answer is rather not within a word.
        ("Abendbrot, das Brot ist rot.", "rot", None, 24),
        ("Rom 1918: 19 Jahre", "19", None, 10),
        ("sub_rot rot", "rot", None, 4),  # no letter or digit before it
        ("Abendbrot", "rot", None, 6),
        ("\u6771\u4eac\u90fd\u306f\u6771\u4eac", "\u6771\u4eac", None, 0),
        ("very good. (good)", "(good)", None, 11),
    ],
)
def test_an_answer_is_where_the_row_says_or_where_it_first_stands(
    context, answer, given, start, tmp_path
):
    row = {**ROW, "context": context, "answer": answer, "answer_start": given}
    (example,), _ = _read(tmp_path, "a.jsonl", [row])
    before = example.words[: example.first_word]
    place = len(" ".join((*before, ""))) + example.answer_start
    assert place == start


@pytest.mark.parametrize(
    ("split", "has_unanswerable", "answer", "is_impossible"),
    [
        ("train", True, "good", True),
        ("dev", True, "good", True),
        ("test", True, "good", True),
        ("test", True, None, False),
        ("test", False, "good", False),
    ],
)
def test_a_blank_means_none_if_a_row_has_an_answer(
    split, has_unanswerable, answer, is_impossible, tmp_path
):
    rows = [{**ROW, "answer": answer}, {**ROW, "answer": None}]
    (_, blank), _ = _read(
        tmp_path, "a.jsonl", rows, split, has_unanswerable=has_unanswerable
    )
    assert blank.is_impossible == blank.is_labelled == is_impossible
