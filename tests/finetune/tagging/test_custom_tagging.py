import json

import pytest
import tiny_finetuning as tiny

from electra_tf.finetune import task_builder
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.readers import inputs
from electra_tf.util.errors import UserError

LINES = [
    {"words": ["good", "film"], "tags": ["B-X", "I-X"]},
    {"words": ["a", "plot"], "tags": ["O", "I-Y"]},
]


def _task(tmp_path, *, metadata=None, **leaves):
    values = {"task_names": ("own",), "task_kind": "tagging", **leaves}
    return task_builder.get_task(
        tiny.config(tmp_path, **values),
        TextTokenizer(tiny.VOCABULARY),
        longest=32,
        metadata=metadata,
    )


def _write(tmp_path, content, name="train.jsonl"):
    path = tmp_path / "finetuning_data" / "own" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, str):
        content = "".join(json.dumps(line) + "\n" for line in content)
    path.write_text(content, "utf-8")
    return path


def test_spans_are_known_by_their_tags(tmp_path):
    _write(tmp_path, LINES)
    task = _task(tmp_path)
    first, second = task.get_examples("train")
    assert first.words == ("good", "film") and first.tags == ("B-X", "E-X")
    assert second.tags == ("O", "S-Y")
    assert task.labels == ("O", *(f"{p}-{k}" for k in "XY" for p in "BIES"))
    assert task.get_scorer().main_metric == "f1"
    by_words = _task(tmp_path, main_metric="accuracy")
    assert by_words.get_scorer().main_metric == "accuracy"
    plain = _task(tmp_path, tag_scheme="tags")
    assert plain.labels == ("B-X", "I-X", "I-Y", "O")
    assert plain.get_scorer().main_metric == "accuracy"
    again = _task("nowhere", metadata=json.loads(json.dumps(task.describe())))
    assert again.labels == task.labels and again.is_spans


@pytest.mark.parametrize(
    ("tags", "encoding"),
    [("I-X I-X O", "IOB1"), ("B-X I-X O", "BIO"), ("B-X E-X O", "BIOES")],
)
def test_answers_have_the_encoding_of_the_training_rows(
    tags, encoding, tmp_path
):
    _write(tmp_path, [{"words": [*"abc"], "tags": tags.split()}])
    task = _task(tmp_path)
    assert task.get_scorer().encoding == encoding
    known = json.loads(json.dumps(task.describe()))
    assert _task("nowhere", metadata=known).get_scorer().encoding == encoding
    del known["encoding"]  # as earlier versions wrote it
    assert _task("nowhere", metadata=known).get_scorer().encoding == "BIOES"


def test_tags_that_are_no_spans_are_scored_word_by_word(tmp_path):
    _write(tmp_path, [{"form": ["a", 1], "pos": [7, 2]}])
    names = {"words_column": "form", "tags_column": "pos"}
    task = _task(tmp_path, **names)
    (sentence,) = task.get_examples("train")
    assert sentence.words == ("a", "1") and sentence.tags == ("7", "2")
    assert task.labels == ("2", "7") and task.input_names == ("form",)
    assert task.get_scorer().main_metric == "accuracy"
    _write(tmp_path, [{"words": ["a", "b"], "tags": ["O", "NN"]}], "x.jsonl")
    path = str(tmp_path / "finetuning_data/own/x.jsonl")
    assert not _task(tmp_path, train_file=path).is_spans
    with pytest.raises(UserError, match="must be accuracy.*tags 2, 7"):
        _task(tmp_path, **names, main_metric="f1").describe()


def test_words_may_stand_one_a_line(tmp_path):
    _write(
        tmp_path, "x good B-X\nx film I-X\n\nx a O\nx plot B-Y\n", "train.conll"
    )
    task = _task(tmp_path, words_column="2", tags_column="3")
    assert [x.words for x in task.get_examples("train")] == [
        ("good", "film"),
        ("a", "plot"),
    ]
    assert task.get_examples("train")[1].tags == ("O", "S-Y")
    assert task.input_names == ("words",)
    wrong = _task(tmp_path, words_column="form")
    with pytest.raises(UserError, match=r"`words_column` .*number.*'form'"):
        wrong.get_examples("train")
    path = _write(tmp_path, "O the\nS-X plot\n", "tag_first.conll")
    numbers = {"words_column": "2", "tags_column": "1"}
    task = _task(tmp_path, train_file=str(path), **numbers)
    (sentence,) = task.get_examples("train")
    assert sentence.words == ("the", "plot") and sentence.tags == ("O", "S-X")
    path = _write(tmp_path, "# x\n1\tit\t_\tPRON\n", "any.conllu")
    (sentence,) = _task(tmp_path, train_file=str(path)).get_examples("train")
    assert sentence.words == ("it",) and sentence.tags == ("PRON",)


def test_test_sentences_need_no_tags(tmp_path):
    _write(tmp_path, LINES)
    rows = [{"words": ["a"]}, {"words": ["a"], "tags": ["B-Z"]}, LINES[1]]
    _write(tmp_path, rows, "test.jsonl")
    task = _task(tmp_path)
    tags = [x.tags for x in task.get_examples("test")]
    assert tags == [(), (), ("O", "S-Y")]
    answers = [{"words": ("a",), "label": (), "prediction": ["O"]}]
    answers.append({"words": ("a",), "label": ("S-X",), "prediction": ["O"]})
    text = "a O\n\na S-X O\n\n"
    assert task.files("test", answers) == {"own_test.txt": text}
    path = _write(tmp_path, "a\nfilm\n", "words.txt")
    (sentence,) = _task(tmp_path, test_file=str(path)).get_examples("test")
    assert sentence.words == ("a", "film") and sentence.tags == ()


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"words": ["a"], "tags": ["B-Z"]}, "kind .* X, Y.*'B-Z'.*--labels"),
        ({"words": ["a"], "tags": ["X"]}, "B, I, E or S.*'X'"),
        ({"words": ["a"], "tags": []}, "'tags' must be a list"),
        ({"words": ["a"], "tags": ["O", "O"]}, "1 words, 2 tags"),
        ({"words": [""], "tags": ["O"]}, "'words' must be a list"),
        ({"words": "a", "tags": ["O"]}, "'words' must be a list"),
        ({"word": ["a"], "tags": ["O"]}, "'words'.* Did you mean 'word'"),
    ],
)
def test_a_bad_sentence_is_an_error_with_its_line_or_counted(
    row, problem, tmp_path
):
    _write(tmp_path, LINES)
    path = _write(tmp_path, [LINES[0], row], "dev.jsonl")
    with pytest.raises(UserError, match=rf"dev\.jsonl, line 2: .*{problem}"):
        _task(tmp_path).get_examples("dev")
    lenient = _task(tmp_path, skip_bad_rows=True)
    assert [x.eid for x in lenient.get_examples("dev")] == [0]
    assert lenient.bad_rows.counts == {str(path): 1}


def test_a_tag_one_a_line_is_named_by_its_own_line(tmp_path):
    _write(tmp_path, "a O\nfilm B-X\n", "train.txt")
    _write(tmp_path, "a O\nfilm B-Z\n", "dev.txt")
    with pytest.raises(UserError, match=r"dev\.txt, line 2: A span's kind"):
        _task(tmp_path).get_examples("dev")
    task = _task(tmp_path, labels=("Z", "X"))
    assert task.get_examples("dev")[0].tags == ("O", "S-Z")
    assert task.labels[1] == "B-Z"
    _write(tmp_path, "a O\nfilm\n", "dev.txt")
    with pytest.raises(UserError, match=r"dev\.txt, line 2: .*'film' alone"):
        _task(tmp_path).get_examples("dev")


def test_sentences_are_held_out_by_their_words(tmp_path):
    rows = [{"words": ["w", str(i)], "tags": ["O", "B-X"]} for i in range(99)]
    _write(tmp_path, rows)
    task = _task(tmp_path, dev_fraction=0.2)
    parts = [{x.words for x in task.get_examples(s)} for s in ("train", "dev")]
    assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == 99
    assert 8 < len(parts[1]) < 35


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("train.conll", "1 good B-X\n1 film I-X\n\n2 a O\n", "2"),
        ("train.tsv", "good film\tB-X\n\na\tO\n", ""),
        ("train.conllu", "1\tgood\tx\tB-X\n\n1\ta\tx\tO\n", ""),
    ],
)
def test_a_trained_model_reads_sentences_as_training_does(
    name, content, column, tmp_path
):
    path = _write(tmp_path, content, name)
    task = _task(tmp_path, words_column=column)
    source = inputs.of_file(str(path), "auto", task.input_spec)
    found = [source.parse(row)[0] for _, row in source.rows]
    assert found == [x.words for x in task.get_examples("train")]
