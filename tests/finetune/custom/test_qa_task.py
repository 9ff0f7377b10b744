import json

import pytest
import tiny_finetuning as tiny

from electra_tf.finetune import task_builder
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.util.errors import UserError

ROW = {"question": "what", "context": "it is a good film", "answer": "good"}


def _task(tmp_path, **leaves):
    values = {"task_names": ("own",), "task_kind": "qa", **leaves}
    config = tiny.config(tmp_path, max_query_length=6, doc_stride=8, **values)
    tokenizer = TextTokenizer(tiny.VOCABULARY)
    return task_builder.get_task(config, tokenizer, longest=32)


def _write(tmp_path, rows, name="train.jsonl"):
    path = tmp_path / "finetuning_data" / "own" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(rows, str):
        rows = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(rows, "utf-8")
    return path


def _words(example):
    return example.words[example.first_word : example.last_word + 1]


def test_an_answer_is_where_the_row_says_or_where_it_first_stands(tmp_path):
    twice = {**ROW, "context": "good it is a good film"}
    _write(tmp_path, [twice, {**twice, "answer_start": 13, "id": "b"}])
    found, told = _task(tmp_path).get_examples("train")
    assert (found.first_word, told.first_word) == (0, 4)
    assert _words(found) == _words(told) == ("good",)
    assert (found.qas_id, told.qas_id) == ("0", "b")
    assert not found.is_impossible and found.answers == ("good",)


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


def test_tables_are_read_too(tmp_path):
    text = "q,context,answer,answer_start\nwhat,it is good,good,6\n"
    path = _write(tmp_path, text, "any.csv")
    names = {"train_file": str(path), "question_column": "q"}
    task = _task(tmp_path, **names)
    (example,) = task.get_examples("train")
    assert _words(example) == ("good",) and example.question == "what"
    assert task.input_names == ("q", "context")


def test_rows_without_an_answer_are_told_to_be_questions(tmp_path):
    _write(tmp_path, [ROW, {**ROW, "answer": None}])
    with pytest.raises(UserError, match="line 2: .*--has_unanswerable"):
        _task(tmp_path).get_examples("train")
    task = _task(tmp_path, has_unanswerable=True)
    is_impossible = [x.is_impossible for x in task.get_examples("train")]
    assert is_impossible == [False, True]
    assert task.get_scorer().main_metric == "best_f1"
    exact = _task(tmp_path, main_metric="exact_match")
    assert exact.get_scorer().main_metric == "exact_match"
    exact = _task(tmp_path, main_metric="exact_match", has_unanswerable=True)
    assert exact.get_scorer().main_metric == "best_exact"
    _write(tmp_path, [{"question": "a", "context": "b"}], "test.jsonl")
    (example,) = _task(tmp_path).get_examples("test")
    assert example.answers == () and not example.is_impossible


def test_files_may_be_as_those_of_squad_and_mrqa(tmp_path):
    answers = [{"text": "good", "answer_start": 8}]
    question = {"id": "q", "question": "what", "answers": answers}
    paragraph = {"context": ROW["context"], "qas": [question]}
    squad = json.dumps({"data": [{"paragraphs": [paragraph]}]})
    path = _write(tmp_path, squad, "a.json")
    (example,) = _task(tmp_path, train_file=str(path)).get_examples("train")
    assert example.qas_id == "q" and _words(example) == ("good",)
    detected = [{"text": "good", "char_spans": [[8, 11]]}]
    question = {"qid": "q", "question": "what", "answers": ["good"]}
    question["detected_answers"] = detected
    paragraph["qas"] = [question]
    for lines in ([paragraph], [{"header": {}}, paragraph]):
        path = _write(tmp_path, lines, "b.jsonl")
        task = _task(tmp_path, train_file=str(path))
        (example,) = task.get_examples("train")
        assert example.qas_id == "q" and _words(example) == ("good",)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({**ROW, "answer": "plot"}, "must stand in its context.*'plot'"),
        ({**ROW, "answer_start": 2}, "where the answer begins.*2 for 'good'"),
        ({**ROW, "answer_start": 99}, "must lie in the context"),
        ({**ROW, "answer_start": "x"}, "whole number.*'x'"),
        ({**ROW, "answer_start": [1, 2]}, "1 answers, 2 numbers"),
        ({**ROW, "context": " "}, "'context' must be a text"),
        ({"question": "a", "answer": "b"}, "must have 'context'"),
        ({**ROW, "id": "a"}, "a for the second time"),
    ],
)
def test_a_bad_row_is_an_error_with_its_line_or_counted(row, problem, tmp_path):
    path = _write(tmp_path, [{**ROW, "id": "a"}, row])
    with pytest.raises(UserError, match=rf"train\.jsonl, line 2: .*{problem}"):
        _task(tmp_path).get_examples("train")
    lenient = _task(tmp_path, skip_bad_rows=True)
    assert [x.qas_id for x in lenient.get_examples("train")] == ["a"]
    assert lenient.bad_rows.counts == {str(path): 1}


def test_questions_on_a_text_are_held_out_together(tmp_path):
    rows = [{**ROW, "context": f"good {i // 4}"} for i in range(200)]
    _write(tmp_path, rows)
    task = _task(tmp_path, dev_fraction=0.3)
    parts = [
        [x.context for x in task.get_examples(s)] for s in ("train", "dev")
    ]
    assert not {*parts[0]} & {*parts[1]} and len(parts[0] + parts[1]) == 200
    assert len(parts[1]) > 12
