import functools
import json

import pytest
import tiny_finetuning as tiny

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data.tables import BadRows
from electra_tf.finetune.qa import qa_files
from electra_tf.finetune.task import Source
from electra_tf.util.errors import UserError

ROW = {"question": "what", "context": "it is a good film", "answer": "good"}
CONTEXT = "It was  a good\u202ffilm, they\u00a0said."


def _question(**fields):
    answer = {"text": "good", "answer_start": CONTEXT.index("good")}
    return {"id": "q1", "question": "How?", "answers": [answer], **fields}


def _squad(*questions, context=CONTEXT):
    paragraph = {"context": context, "qas": list(questions)}
    return {"version": "v2.0", "data": [{"paragraphs": [paragraph]}]}


def _mrqa(**fields):
    """Returns a line with a question."""
    start = CONTEXT.index("film")
    found = {"text": "film", "char_spans": [[start, start + 3], [0, 3]]}
    question = {
        "qid": "m1",
        "id": "another name",
        "question": "What?",
        "answers": ["film", "a film"],
        "detected_answers": [{**found, **fields.pop("detected", {})}],
        **fields,
    }
    return {"context": CONTEXT, "qas": [question]}


def _read(directory, name, content, *, skip=False):
    """Writes JSON, or lines of it, and reads the questions."""
    path = directory / name
    lines = content if ".jsonl" in name else [content]
    texts = [x if isinstance(x, str) else json.dumps(x) for x in lines]
    path.write_text("\n".join(texts) + "\n", "utf-8")
    bad_rows = BadRows(skip=skip)
    examples = qa_files.read_questions(
        Source(path),
        ColumnsConfig(),
        bad_rows,
        is_training=name.startswith("train"),
        needs_answers=True,
        has_unanswerable=True,
    )
    return examples, bad_rows.counts.get(str(path), 0), *bad_rows.notes


def test_white_space_is_that_of_the_original():
    words = ("It", "was", "a", "good", "film,", "they\u00a0said.")
    assert qa_files.Context(CONTEXT).words == words
    assert qa_files.Context(" \n").words == ()


@pytest.mark.parametrize(
    ("answer", "start", "words"),
    [
        ("good film", 10, (3, 4)),
        ("GOOD", 10, (3, 3)),
        ("film, they\u00a0said", CONTEXT.index("film"), (4, 5)),
        ("a", 8, (2, 2)),
        ("was", 4, (1, 1)),  # one character off
        ("bad", 10, None),
        ("good", 0, None),
    ],
)
def test_an_answer_is_looked_for_in_the_words_at_its_place(
    answer, start, words
):
    place = qa_files.Context(CONTEXT).find(answer, start)
    assert (place and place[:2]) == words


def test_squad_is_read(tmp_path):
    nothing = _question(id="q2", answers=[], is_impossible=True)
    answers = [{"text": "film", "answer_start": 15}, *_question()["answers"]]
    several = _question(id=3, answers=answers)
    content = _squad(_question(), nothing, several)
    (one, two, three), _ = _read(tmp_path, "train.json", content)
    assert (one.eid, one.qas_id, one.question) == (0, "q1", "How?")
    assert one.answers == ("good",) and one.answer_text == "good"
    assert (one.first_word, one.last_word) == (3, 3)
    assert two.is_impossible and two.answers == () and not two.is_found
    assert three.qas_id == "3" and three.answers == ("film", "good")
    assert (three.answer_text, three.first_word) == ("film", 4)
    assert one.words is three.words


def test_an_answer_that_is_not_there_is_not_learnt_but_evaluated(tmp_path):
    wrong = {"text": "bad", "answer_start": 10}
    content = _squad(_question(id="q0", answers=[wrong]), _question())
    (only,), count, note = _read(tmp_path, "train.json", content)
    assert only.qas_id == "q1" and only.eid == 0 and count == 1
    assert "question q0" in note
    (first, second), count = _read(tmp_path, "dev.json", content)
    assert first.answers == ("bad",) and not first.is_found and count == 0
    assert (first.eid, second.eid) == (0, 1)


SQUAD_PLACE = "article 1, paragraph 1, question"


def _at(text, start):
    return {"answers": [{"text": text, "answer_start": start}]}


@pytest.mark.parametrize(
    ("name", "bad", "place"),
    [
        ("train.json", _question(question=" "), f"{SQUAD_PLACE} q1"),
        ("train.json", _question(**_at("said.", 27)), f"{SQUAD_PLACE} q1"),
        ("train.json", _question(**_at("It", -1)), f"{SQUAD_PLACE} q1"),
        ("train.json", _question(id=None), f"{SQUAD_PLACE} 2"),
        ("train.jsonl", "{", "line 2"),
        ("train.jsonl", _mrqa(detected={"char_spans": [7]}), "line 2"),
        ("train.jsonl", _mrqa(detected={"char_spans": [[99, 9]]}), "line 2"),
        ("train.jsonl", {**ROW, "answer": "plot"}, "line 2"),
        ("train.jsonl", {**ROW, "answer_start": 2}, "line 2"),
        ("train.jsonl", {**ROW, "answer_start": [1, 2]}, "line 2"),
        ("dev.jsonl", {**ROW, "id": "good"}, "line 2"),
    ],
)
def test_a_bad_question_has_its_place_or_is_skipped(name, bad, place, tmp_path):
    content = [_mrqa(qid="good"), bad]
    if name == "train.json":
        content = _squad(_question(id="good"), bad)
    elif isinstance(bad, dict) and "question" in bad:
        content[0] = {**ROW, "id": "good"}
    with pytest.raises(UserError, match=rf"{name}, {place}"):
        _read(tmp_path, name, content)
    (example,), count, _ = _read(tmp_path, name, content, skip=True)
    assert example.qas_id == "good" and count == 1


def test_question_ids_must_be_unique_outside_of_training(tmp_path):
    content = _squad(_question(), _question())
    assert len(_read(tmp_path, "train.json", content)[0]) == 2
    with pytest.raises(UserError, match="q1"):
        _read(tmp_path, "dev.json", content)


@pytest.mark.parametrize("header", [[], [{"header": {"dataset": "x"}}, ""]])
def test_mrqa_is_read(tmp_path, header):
    (only,), _ = _read(tmp_path, "train.jsonl", [*header, _mrqa()])
    assert (only.qas_id, only.question) == ("m1", "What?")
    assert only.answers == ("film", "a film") and only.answer_text == "film"
    assert (only.first_word, only.last_word) == (4, 4)


_task = functools.partial(tiny.task, "qa", max_query_length=6, doc_stride=8)


def _write(tmp_path, rows, name="train.jsonl"):
    return tiny.write(tmp_path, "own", name, rows)


def _words(example):
    return example.words[example.first_word : example.last_word + 1]


def test_an_answer_is_where_the_row_says_or_where_it_first_stands(tmp_path):
    twice = {**ROW, "context": "good it is a good film"}
    _write(tmp_path, [twice, {**twice, "answer_start": 13, "id": "b"}])
    found, placed = _task(tmp_path).get_examples("train")
    assert (found.first_word, placed.first_word) == (0, 4)
    assert _words(found) == _words(placed) == ("good",)
    assert (found.qas_id, placed.qas_id) == ("0", "b")
    assert not found.is_impossible and found.answers == ("good",)


@pytest.mark.parametrize(
    ("context", "answer", "start"),
    [
        ("Abendbrot, das Brot ist rot.", "rot", 24),
        ("Rom 1918: 19 Jahre", "19", 10),
        ("sub_rot rot", "rot", 4),  # no letter or digit before it
        ("Abendbrot", "rot", 6),
        ("\u6771\u4eac\u90fd\u306f\u6771\u4eac", "\u6771\u4eac", 0),
        ("very good. (good)", "(good)", 11),
    ],
)
def test_an_answer_without_a_place_is_rather_not_within_a_word(
    context, answer, start, tmp_path
):
    _write(tmp_path, [{**ROW, "context": context, "answer": answer}])
    (example,) = _task(tmp_path).get_examples("train")
    before = example.words[: example.first_word]
    place = len(" ".join((*before, ""))) + example.answer_start
    assert place == start


def test_an_answer_at_a_wrong_place_in_its_words_is_the_nearest():
    context = qa_files.Context("it (good-bad-good), it")
    for start, expected in ((3, 1), (5, 1), (12, 10), (17, 10)):
        place = context.find("good", start)
        assert place == (1, 1, expected, expected + 4), start


def test_only_squad_2_has_questions_without_an_answer(tmp_path):
    nothing = _question(id="q2", answers=[], is_impossible=True)
    content = json.dumps(_squad(_question(), nothing))
    task = tiny.task("squad", tmp_path, max_query_length=6, doc_stride=8)
    tiny.write_split(task, "train", content)
    assert task.get_examples("train")[1].is_impossible
    task = tiny.task("squadv1", tmp_path, max_query_length=6, doc_stride=8)
    tiny.write_split(task, "train", content)
    with pytest.raises(UserError, match="question q2: "):
        task.get_examples("train")


def test_answers_may_be_lists_inside_an_object(tmp_path):
    answers = {"text": ["a good", "good"], "answer_start": [6, 8]}
    _write(tmp_path, [{**ROW, "answers": answers}])
    names = {
        "answer_column": "answers.text",
        "answer_start_column": "answers.answer_start",
    }
    (example,) = _task(tmp_path, **names).get_examples("train")
    assert _words(example) == ("a", "good")
    assert example.answers == ("a good", "good")


def test_rows_without_an_answer_need_has_unanswerable(tmp_path):
    _write(tmp_path, [ROW, {**ROW, "answer": None}])
    with pytest.raises(UserError, match="line 2"):
        _task(tmp_path).get_examples("train")
    task = _task(tmp_path, has_unanswerable=True)
    is_impossible = [x.is_impossible for x in task.get_examples("train")]
    assert is_impossible == [False, True]
    assert task.get_scorer().main_metric == "best_f1"


@pytest.mark.parametrize("has_unanswerable", [True, False])
@pytest.mark.parametrize("answer", ["good", None])
def test_a_blank_of_a_test_file_means_none_if_a_row_has_an_answer(
    tmp_path, has_unanswerable, answer
):
    rows = [{**ROW, "answer": answer}, {**ROW, "answer": None}]
    _write(tmp_path, rows, "test.jsonl")
    task = _task(tmp_path, has_unanswerable=has_unanswerable)
    _, blank = task.get_examples("test")
    assert blank.is_impossible == (has_unanswerable and bool(answer))
    assert blank.is_labelled == blank.is_impossible
