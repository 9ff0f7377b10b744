import functools
import json
import shutil

import golden_arrays
import pytest
import tiny_finetuning as tiny

from electra_tf.data import answering
from electra_tf.finetune.classification import glue
from electra_tf.finetune.preprocessing import InputExample
from electra_tf.model.tokenization import Vocabulary

GOLDEN = golden_arrays.FULL / "finetune"
WORDS = tiny.VOCABULARY.tokens
LABELS = {
    name: [*preset.columns.get("labels", ("0.0", "5.0"))]
    for name, preset in glue.TASKS.items()
}
# Columns of GLUE's labelled files and of its test files, by name if they are
# read, else by number.
COLUMNS = {
    "cola": ("", "0 sentence"),
    "sst": ("sentence label", "0 sentence"),
    "mrpc": ("Quality 1 2 #1_String #2_String", "0 1 2 #1_String #2_String"),
    "qqp": ("0 1 2 question1 question2 is_duplicate", "0 question1 question2"),
    "sts": (
        "0 1 2 3 4 5 6 sentence1 sentence2 score",
        "0 1 2 3 4 5 6 sentence1 sentence2",
    ),
    "mnli": (
        "0 1 2 3 4 5 6 7 sentence1 sentence2 10 gold_label",
        "0 1 2 3 4 5 6 7 sentence1 sentence2",
    ),
    "qnli": ("0 question sentence label", "0 question sentence"),
    "rte": ("0 sentence1 sentence2 label", "0 sentence1 sentence2"),
    "wnli": ("0 sentence1 sentence2 label", "0 sentence1 sentence2"),
}


_task = functools.partial(tiny.task, longest=64)


@pytest.mark.parametrize("name", COLUMNS)
def test_files_of_glue_are_read_in_training_and_by_a_trained_model(
    name, tmp_path
):
    task, labels = _task(name, tmp_path), LABELS[name]
    second = None if name in ("cola", "sst") else "The plot"
    for split in ("train", *task.dev_splits, *task.test_splits):
        is_test = split in task.test_splits
        columns = COLUMNS[name][is_test]
        if split == "diagnostic":
            columns = "0 sentence1 sentence2"
        header = columns.replace(" ", "\t").replace("_S", " S")
        lines = [header] if header else []
        for label, text in zip(labels, ("A film", "", "A film"), strict=False):
            inputs, names = task.input_spec.file_names, header.split("\t")
            cells = {**dict.fromkeys(inputs, "The plot"), inputs[0]: text}
            row = [cells.get(x, "0" if x.isdigit() else label) for x in names]
            lines.append("\t".join(row))
            if not header:
                lines[-1] = f"x\t{label}\t*\t{text}"
        tiny.write_split(task, split, "\n".join([*lines, ""]))
        examples = task.get_examples(split)
        expected = [*map(float, labels)] if name == "sts" else labels
        expected = [None] * len(labels) if is_test else expected
        assert [x.label for x in examples] == expected
        assert [x.eid for x in examples] == [*range(len(labels))]
        assert [x.text_a for x in examples][:2] == ["A film", ""]
        assert {x.text_b for x in examples} == {second}
        path = str(task.source(split).path)
        source = answering.of_file(path, "auto", task.input_spec)
        found = [task.make_example(0, x) for _, x in source.rows]
        texts = [(x.text_a, x.text_b) for x in examples]
        assert [(x.text_a, x.text_b) for x in found] == texts


def test_submissions_are_what_the_server_takes():
    for name, split, prediction, files in (
        ("mnli", "diagnostic", "neutral", {"AX.tsv": "neutral"}),
        ("sts", "test", 1.23456, {"STS-B.tsv": "1.235"}),
        ("sts", "dev", 1.23456, {}),
    ):
        answers = [{"eid": 3, "prediction": prediction}]
        assert _task(name).output_files(split, answers) == {
            name: f"index\tprediction\n3\t{value}\n"
            for name, value in files.items()
        }


@pytest.mark.parametrize(
    ("name", "is_training", "leaves", "is_doubled"),
    [
        ("mrpc", True, {}, True),
        ("mrpc", False, {}, False),
        ("mrpc", True, {"double_unordered": False}, False),
        ("qqp", True, {}, False),
    ],
)
def test_pairs_without_an_order_are_doubled_in_training(
    name, is_training, leaves, is_doubled
):
    example = InputExample(0, "good", "bad film", "1")
    rows = _task(name, **leaves).featurize([example], is_training=is_training)
    found = [
        (row["eid"], WORDS[row["input_ids"][1]], row["label_ids"])
        for row in rows
    ]
    assert found == [(0, "good", 1)] + [(0, "bad", 1)] * is_doubled


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden arrays")
def test_rows_are_those_of_the_original(tmp_path):
    # Files of these hold malformed rows, which the original skips, too.
    skipped = {"cola", "qqp"}
    data_dir = tmp_path / "finetuning_data"
    shutil.copytree(GOLDEN / "data_dir/finetuning_data", data_dir)
    vocabulary = Vocabulary.from_file(str(golden_arrays.VOCAB_FILE))
    golden = json.loads((GOLDEN / "features.json").read_text("utf-8"))
    for key, case in golden.items():
        name, split = key.split("/")
        if name not in glue.TASKS:
            continue
        task = _task(
            name,
            tmp_path,
            vocabulary=vocabulary,
            skip_bad_rows=name in skipped,
            max_seq_length=64,
        )
        split = "dev_matched" if (name, split) == ("mnli", "dev") else split
        examples = task.get_examples(split)
        is_training = split == "train"
        found = list(task.featurize(examples, is_training=is_training))
        expected = [row["features"][0] for row in case["rows"]]
        assert len(found) == len(expected), key
        for row, there in zip(found, expected, strict=True):
            size = sum(there["input_mask"])
            for column in ("input_ids", "segment_ids"):
                assert row[column].tolist() == there[column][:size], key
            target = task.TARGET
            if split not in task.test_splits:
                theirs = there[f"{name}_{target}"]
                assert row[target] == pytest.approx(theirs), key
