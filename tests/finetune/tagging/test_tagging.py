"""Tags, their spans and windows, and the rows of tagged sentences."""

import functools
import json
import shutil

import golden_arrays
import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.data import answering
from electra_tf.finetune.scorer import get_span_labels
from electra_tf.finetune.tagging.tagging_tasks import get_tags, get_windows
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

GOLDEN = golden_arrays.FULL / "finetune"
METRICS = json.loads(
    (golden_arrays.ROOT / "finetune/metrics.json").read_text("utf-8")
)


@pytest.mark.parametrize("case", METRICS["span_labels"])
def test_spans_and_tags_are_those_of_the_original(case):
    spans = get_span_labels(case["tags"], original=True)
    assert [list(span) for span in spans] == case["spans"]
    assert get_tags(spans, len(case["tags"])) == case["BIOES"]


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B-X I-X O I-X", [(0, 1, "X"), (3, 3, "X")]),
        ("I-X I-Y I-Y B-Y", [(0, 0, "X"), (1, 2, "Y"), (3, 3, "Y")]),
        ("S-X I-X E-X E-X", [(0, 0, "X"), (1, 2, "X"), (3, 3, "X")]),
        ("B-X I-Y", [(0, 0, "X"), (1, 1, "Y")]),
        ("O O", []),
        ("", []),
    ],
)
def test_a_span_ends_where_the_kind_changes(tags, spans):
    assert get_span_labels(tags.split()) == spans


def test_windows_score_every_word_once_and_fit():
    random = np.random.default_rng(2)
    for room in (3, 8, 21):
        for _ in range(100):
            count = random.integers(1, 40)
            sizes = random.integers(1, room + 1, count).tolist()
            windows = get_windows(sizes, room)
            scored = []
            for first, end, first_scored, end_scored in windows:
                assert sum(sizes[first:end]) <= room
                assert first <= first_scored <= end_scored <= end
                scored += range(first_scored, end_scored)
            assert scored == list(range(count))


_task = functools.partial(tiny.task, longest=64)
_custom = functools.partial(tiny.task, "tagging")


def _write(tmp_path, content, name="train.jsonl"):
    return tiny.write(tmp_path, "own", name, content)


def test_every_word_has_its_own_labeled_position(tmp_path):
    task = _task("ccg", tmp_path)
    tiny.write_split(
        task, "train", "the A\nfilms B\n\u200b C\n[SEP] D\nplot E\n"
    )
    (row,) = task.featurize(task.get_examples("train"), is_training=True)
    # [CLS] the film ##s [UNK] [SEP], in pieces, plot [SEP]
    assert row["labeled_positions"].tolist()[:4] == [1, 2, 4, 5]
    assert row["input_ids"][4] == tiny.VOCABULARY.unk_id
    assert row["input_ids"][row["labeled_positions"][4]] == 8
    assert row["labels"].tolist() == [0, 1, 2, 3, 4]
    assert row["segment_ids"].tolist() == [1] * len(row["input_ids"])


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden arrays")
def test_rows_are_those_of_the_original(tmp_path):
    shutil.copytree(GOLDEN / "data_dir", tmp_path, dirs_exist_ok=True)
    vocabulary = Vocabulary.from_file(str(golden_arrays.VOCAB_FILE))
    task = _task(
        "chunk", tmp_path, vocabulary=vocabulary, original_behaviour=("spans",)
    )
    golden = json.loads((GOLDEN / "features.json").read_text("utf-8"))
    mapping = golden["chunk/label_mapping"]
    names = {number: tag for tag, number in mapping.items()}
    num_compared = 0
    for split in ("train", "dev"):
        examples = task.get_examples(split)
        rows = list(task.featurize(examples, is_training=True))
        for case in golden[f"chunk/{split}"]["rows"]:
            example = examples[case["example"]["eid"]]
            tags = [names[number] for number in case["example"]["labels"]]
            assert list(example.tags) == tags
            if len(example.words) == 43 or "[SEP]" in example.words:
                continue  # cut, or misplaced, in the original
            (row,) = [r for r in rows if r["eid"] == example.eid]
            there = case["features"][0]
            for name in ("input_ids", "segment_ids"):
                size = len(row[name])
                assert row[name].tolist() == there[name][:size]
            for name in ("labels_mask", "labeled_positions"):
                size = len(row[name])
                assert row[name].tolist() == there[f"chunk_{name}"][:size]
            num_compared += 1
    assert num_compared == 4


LINES = [
    {"words": ["good", "film"], "tags": ["B-X", "I-X"]},
    {"words": ["a", "plot"], "tags": ["O", "I-Y"]},
]


def test_tags_of_spans_are_recognized_and_become_bioes(tmp_path):
    _write(tmp_path, LINES)
    task = _custom(tmp_path)
    tags = [x.tags for x in task.get_examples("train")]
    assert tags == [("B-X", "E-X"), ("O", "S-Y")]
    assert task.labels == ("O", *(f"{p}-{k}" for k in "XY" for p in "BIES"))
    assert task.main_metric == "f1"
    plain = _custom(tmp_path, tag_scheme="tags")
    assert plain.labels == ("B-X", "I-X", "I-Y", "O")
    assert plain.main_metric == "accuracy"


def test_bilou_is_read_as_bioes(tmp_path, capsys):
    tags = ["B-X", "I-X", "L-X", "O", "U-Y", "U-Y"]
    _write(tmp_path, [{"words": [*"abcdef"], "tags": tags}])
    task = _custom(tmp_path)
    (example,) = task.get_examples("train")
    assert example.tags == ("B-X", "I-X", "E-X", "O", "S-Y", "S-Y")
    assert task.labels == ("O", *(f"{p}-{k}" for k in "XY" for p in "BIES"))
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("tags", "num_warnings"),
    [
        (["X-B", "X-I", "O"], 1),
        (["b-x", "i-x", "o"], 1),
        (["B-X", "O", "NOUN"], 0),
        (["NOUN", "VERB", "X"], 0),
    ],
)
def test_tags_that_are_almost_spans_are_named_once(
    tags, num_warnings, tmp_path, capsys
):
    _write(tmp_path, [{"words": [*"abc"], "tags": tags}] * 2)
    task = _custom(tmp_path)
    assert task.get_examples("train")[0].tags == tuple(tags)
    assert task.main_metric == "accuracy"
    err = capsys.readouterr().err
    assert err.count("--tag_scheme") == err.count("WARNING") == num_warnings
    task = _custom(tmp_path, tag_scheme="tags")
    assert task.labels and not capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.jsonl", [{"words": [*"abc"], "tags": [1, 2, 0]}]),
        ("train.conll", "a 1\nb 2\nc 0\n"),
    ],
)
def test_integers_are_numbers_of_the_given_labels(name, content, tmp_path):
    _write(tmp_path, content, name)
    with pytest.raises(UserError, match="--labels"):
        _custom(tmp_path).get_examples("train")
    names = ("O", "B-X", "I-X", "B-Y", "I-Y")
    task = _custom(tmp_path, labels=names)
    assert task.get_examples("train")[0].tags == ("B-X", "E-X", "O")
    assert task.labels == ("O", *(f"{p}-{k}" for k in "XY" for p in "BIES"))
    task = _custom(tmp_path, labels=("DET", "NOUN", "VERB"))
    assert task.get_examples("train")[0].tags == ("NOUN", "VERB", "DET")
    task = _custom(tmp_path, tag_scheme="tags")
    assert task.get_examples("train")[0].tags == ("1", "2", "0")


def test_test_sentences_need_no_tags(tmp_path):
    _write(tmp_path, LINES)
    rows = [{"words": ["a"]}, {"words": ["a"], "tags": ["B-Z"]}, LINES[1]]
    _write(tmp_path, rows, "test.jsonl")
    task = _custom(tmp_path)
    tags = [x.tags for x in task.get_examples("test")]
    assert tags == [(), (), ("O", "S-Y")]
    words = ("New York", "\u00a0", "a\nb")
    answers = [
        {"words": ("a",), "label": ("S-X",), "prediction": ["O"]},
        {"words": words, "label": (), "prediction": ["O"] * 3},
    ]
    text = "a S-X O\n\nNew_York O\n_ O\na_b O\n\n"
    assert task.output_files("test", answers) == {"own_test.txt": text}


def test_a_tag_that_was_never_seen_is_scored_but_not_learnt(tmp_path):
    task = _task("ccg", tmp_path)
    tiny.write_split(task, "train", "the A\n")
    tiny.write_split(task, "dev", "the A\nfilm B\n")
    (row,) = task.featurize(task.get_examples("dev"), is_training=False)
    assert row["labels_mask"].tolist() == [1, 1]
    assert row["loss_mask"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("train.conll", "1 good B-X\n1 film I-X\n\n2 a O\n", "2"),
        ("train.conll", "B-X good\nI-X film\n\nO a\n", "21"),
        ("train.tsv", "good\tB-X\nfilm\tI-X\n\na\tO\n", ""),
        ("train.conllu", "1\tgood\tx\tB-X\n2\tfilm\tx\tI-X\n\n1\ta\tx\tO", ""),
    ],
)
def test_a_trained_model_reads_sentences_as_training_does(
    name, content, columns, tmp_path
):
    path = _write(tmp_path, content, name)
    names = zip(("words_column", "tags_column"), columns, strict=False)
    task = _custom(tmp_path, **dict(names))
    examples = task.get_examples("train")
    assert [x.words for x in examples] == [("good", "film"), ("a",)]
    assert [x.tags for x in examples] == [("B-X", "E-X"), ("O",)]
    source = answering.of_file(str(path), "auto", task.input_spec)
    assert [words for _, (words,) in source.rows] == [x.words for x in examples]
