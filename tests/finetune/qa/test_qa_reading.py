import gzip
import json

import pytest

from electra_tf.finetune.qa import qa_reading
from electra_tf.finetune.readers.reading import BadRows
from electra_tf.util.errors import UserError

CONTEXT = "It was  a good\u202ffilm, they\u00a0said."


def _question(**fields):
    answer = {"text": "good", "answer_start": CONTEXT.index("good")}
    return {"id": "q1", "question": "How?", "answers": [answer], **fields}


def _squad(*questions, context=CONTEXT):
    paragraph = {"context": context, "qas": list(questions)}
    return {"version": "v2.0", "data": [{"paragraphs": [paragraph]}]}


def _read(tmp_path, content, *, skip=False, split="train"):
    path = tmp_path / f"{split}.json"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, "utf-8")
    bad_rows = BadRows(skip=skip)
    examples = qa_reading.read_examples(
        path,
        qa_reading.squad_paragraphs(path),
        qa_reading.squad_question,
        bad_rows=bad_rows,
        is_training=split == "train",
    )
    return examples, bad_rows.counts.get(str(path), 0), *bad_rows.notes


def test_white_space_is_that_of_the_original():
    words = ("It", "was", "a", "good", "film,", "they\u00a0said.")
    assert qa_reading.Context(CONTEXT).words == words
    assert qa_reading.Context(" \n").words == ()


@pytest.mark.parametrize(
    ("answer", "start", "words"),
    [
        ("good film", 10, (3, 4)),
        ("GOOD", 10, (3, 3)),
        ("said", CONTEXT.index("said"), (5, 5)),
        ("a", 8, (2, 2)),
        ("was", 4, (1, 1)),  # one character off
        ("bad", 10, None),
        ("good", 0, None),
    ],
)
def test_an_answer_is_looked_for_in_the_words_at_its_place(
    answer, start, words
):
    assert qa_reading.Context(CONTEXT).find(answer, start) == words


def test_squad_is_read(tmp_path):
    nothing = _question(id="q2", answers=[], is_impossible=True)
    answers = [{"text": "film", "answer_start": 15}, *_question()["answers"]]
    several = _question(id=3, answers=answers)
    content = _squad(_question(), nothing, several)
    (one, two, three), _ = _read(tmp_path, content)
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
    (only,), count, note = _read(tmp_path, content)
    assert only.qas_id == "q1" and only.eid == 0 and count == 1
    assert "question q0: 'bad' must stand at character 10 of" in note
    assert note.endswith("Received: 'goo'.")
    (first, second), count = _read(tmp_path, content, split="dev")
    assert first.answers == ("bad",) and not first.is_found and count == 0
    assert (first.eid, second.eid) == (0, 1)


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        (_question(question=" "), "`question` must be a text.*not empty"),
        (_question(question="\ud800"), "`question` must be Unicode"),
        (_question(id=None), "`id` must be a text.*Received: nothing"),
        (_question(answers="good"), "`answers` must be a list"),
        (_question(answers=["good"]), "object that has `text`"),
        (_question(is_impossible="no"), "`is_impossible` must be true or"),
        (
            _question(answers=[{"text": "said.", "answer_start": 27}]),
            "must lie in the context, of 31 characters.*said.* at 27",
        ),
        (
            _question(answers=[{"text": "It", "answer_start": -1}]),
            "must lie in the context",
        ),
        (
            _question(answers=[{"text": "It", "answer_start": "0"}]),
            "`answer_start` must be a whole number",
        ),
        ([], r"object that has `answers`.*Received: \[\]"),
    ],
)
def test_a_bad_question_is_an_error_with_its_place_or_counted(
    tmp_path, question, problem
):
    content = _squad(_question(id="good"), question)
    name = question["id"] if question and question["id"] else "2"
    where = rf"train\.json, article 1, paragraph 1, question {name}: "
    with pytest.raises(UserError, match=f"{where}.*{problem}.*skip_bad_rows"):
        _read(tmp_path, content)
    (example,), count, _ = _read(tmp_path, content, skip=True)
    assert example.qas_id == "good" and count == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", r"must be JSON\. Received: .*column 2"),
        ("[" * 100_000, "must be JSON"),
        ("[]", r"format of SQuAD.*object that has `data`.*Received: \[\]"),
        ({"data": {}}, "`data` must be a list"),
        ({"data": [{"title": "x"}]}, "`paragraphs` must be a list"),
        ({"data": []}, "must hold questions. Received: none"),
        (_squad(), "must hold questions"),
        (_squad(_question(), context=""), "paragraph 1: `context` must be"),
        ({"data": [{"paragraphs": [{"context": "x"}]}]}, "`qas` must be"),
    ],
)
def test_a_file_of_another_structure_is_named(tmp_path, content, problem):
    with pytest.raises(UserError, match=rf"train\.json.*{problem}"):
        _read(tmp_path, content)


def test_names_must_differ_where_answers_are_written_by_them(tmp_path):
    content = _squad(_question(), _question())
    assert len(_read(tmp_path, content)[0]) == 2
    with pytest.raises(UserError, match="name of its own.*q1 for the second"):
        _read(tmp_path, content, split="dev")


def _mrqa_question(**fields):
    start = CONTEXT.index("film")
    spans = [[start, start + 3], [0, 3]]
    found = {"text": "film", "char_spans": spans}
    return {
        "qid": "m1",
        "id": "another name",
        "question": "What?",
        "answers": ["film", "a film"],
        "detected_answers": [found],
        **fields,
    }


def _read_mrqa(path, *lines, skip=False):
    texts = [x if isinstance(x, str) else json.dumps(x) for x in lines]
    content = ("\n".join(texts) + "\n").encode()
    is_packed = path.suffix == ".gz"
    path.write_bytes(gzip.compress(content) if is_packed else content)
    bad_rows = BadRows(skip=skip)
    examples = qa_reading.read_examples(
        path,
        qa_reading.mrqa_paragraphs(path, bad_rows),
        qa_reading.mrqa_question,
        bad_rows=bad_rows,
        is_training=True,
    )
    return examples, bad_rows.counts.get(str(path), 0)


@pytest.mark.parametrize("name", ["train.jsonl", "train.jsonl.gz"])
def test_mrqa_is_read(tmp_path, name):
    header = {"header": {"dataset": "x"}}
    line = {"context": CONTEXT, "qas": [_mrqa_question()]}
    (only,), _ = _read_mrqa(tmp_path / name, header, "", line)
    assert (only.qas_id, only.question) == ("m1", "What?")
    assert only.answers == ("film", "a film") and only.answer_text == "film"
    assert (only.first_word, only.last_word) == (4, 4)


@pytest.mark.parametrize(
    ("line", "place", "problem"),
    [
        ("{", "line 2", "A row must be JSON"),
        ("7", "line 2", "object that has `context`"),
        (
            _mrqa_question(detected_answers=[{"text": "film"}]),
            "line 2, question m1",
            "`char_spans` must be a list",
        ),
        (
            _mrqa_question(
                detected_answers=[{"text": "film", "char_spans": [7]}]
            ),
            "line 2, question m1",
            r"list of pairs of numbers\. Received: \[7\]",
        ),
        (
            _mrqa_question(
                detected_answers=[{"text": "film", "char_spans": [[99, 102]]}]
            ),
            "line 2, question m1",
            "must lie in the context",
        ),
    ],
)
def test_a_bad_line_is_an_error_with_its_place(tmp_path, line, place, problem):
    good = {"context": CONTEXT, "qas": [_mrqa_question(qid="good")]}
    if isinstance(line, dict):
        line = {"context": CONTEXT, "qas": [line]}
    path = tmp_path / "x.jsonl"
    with pytest.raises(UserError, match=rf"x\.jsonl, {place}: .*{problem}"):
        _read_mrqa(path, good, line)
    (example,), count = _read_mrqa(path, good, line, skip=True)
    assert example.qas_id == "good" and count == 1
