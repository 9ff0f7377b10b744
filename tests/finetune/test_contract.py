"""Contract of every registered task and every kind of custom task."""

import dataclasses
import json
import lzma

import golden_arrays
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.checkpoint import loading
from electra_tf.finetune import finetuned
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import Features
from electra_tf.finetune.task_builder import KINDS, TASKS

SQUAD = (
    '{{"paragraphs": [{{"context": "a film", "qas": [{{"id": "{}", "question": '
    '"the plot", "answers": [{{"text": "film", "answer_start": 2}}]}}]}}]}}'
)
MRQA = (
    '{{"context": "a film", "qas": [{{"qid": "{}", "question": "the plot", '
    '"answers": ["film"], "detected_answers": [{{"text": "film", '
    '"char_spans": [[2, 5]]}}]}}]}}'
)
MRQA_TASKS = ("newsqa", "naturalqs", "triviaqa", "searchqa")
# Template of a labelled row of each task, and two labels to put in.
ROWS = {
    "cola": ("x\t{}\t*\tA film", "01"),
    "sst": ("A film\t{}", "01"),
    "mrpc": ("{}\t1\t2\tA film\tThe plot", "01"),
    "qqp": ("0\t1\t2\tA film\tThe plot\t{}", "01"),
    "sts": ("0\t1\t2\t3\t4\t5\t6\tA film\tThe plot\t{}", "15"),
    "mnli": (
        "0\t1\t2\t3\t4\t5\t6\t7\tA film\tThe plot\t{}",
        ("neutral", "entailment"),
    ),
    "qnli": ("0\tA film\tThe plot\t{}", ("entailment", "not_entailment")),
    "rte": ("0\tA film\tThe plot\t{}", ("entailment", "not_entailment")),
    "wnli": ("0\tA film\tThe plot\t{}", "01"),
    "chunk": ("film NN {}\n", ("B-NP", "O")),
    "ner": ("film NN I-NP {}\n", ("I-PER", "O")),
    "pos": ("1\tfilm\tx\t{}\tx\n", ("NOUN", "VERB")),
    "ccg": ("film {}\n", ("N", "NP")),
    "squad": (SQUAD, ("a", "b")),
    "squadv1": (SQUAD, ("a", "b")),
    **{name: (MRQA, ("a", "b")) for name in MRQA_TASKS},
    "own_classification": ("a film,{}", ("bad", "good")),
    "own_regression": ("a film,{}", "15"),
    "own_tagging": (
        '{{"words": ["a", "film"], "tags": ["O", "{}"]}}',
        ("B-X", "B-Y"),
    ),
    "own_qa": (
        '{{"question": "the plot", "context": "a film", "answer": "{}"}}',
        ("film", "a film"),
    ),
}
HEADERS = {"own_classification": "text,label", "own_regression": "text,label"}
NAMES = [
    # The tasks of MRQA differ only by name.
    pytest.param(x, marks=pytest.mark.slow) if x in MRQA_TASKS[1:] else x
    for x in (*TASKS, *(f"own_{kind}" for kind in KINDS))
]


def _task(tmp_path, name, **leaves):
    if name not in TASKS:
        leaves["task_kind"] = name.removeprefix("own_")
    qa_lengths = {"max_query_length": 8, "doc_stride": 8}
    return tiny.task(name, tmp_path, **qa_lengths, **leaves)


def _write(task):
    row, labels = ROWS[task.name]
    lines = [row.format(label) for label in labels]
    ending = task.source("train").path.suffix
    if ending == ".tsv" and task.name != "cola":
        lines.insert(0, "\t".join("x" for _ in lines[0].split("\t")))
    if task.name in HEADERS:
        lines.insert(0, HEADERS[task.name])
    text = "\n".join(lines) + "\n"
    if ending == ".json":
        text = f'{{"data": [{", ".join(lines)}]}}'
    for split in ("train", *task.dev_splits):
        tiny.write_split(task, split, text)


@pytest.mark.parametrize("name", NAMES)
def test_a_task_reads_featurizes_scores_and_writes_answers(name, tmp_path):
    task = _task(tmp_path, name)
    _write(task)
    examples = task.get_examples(task.dev_splits[0])
    assert [x.eid for x in examples] == [0, 1]
    path = task.source("train").path  # files may be compressed
    path.with_name(f"{path.name}.xz").write_bytes(
        lzma.compress(path.read_bytes())
    )
    path.unlink()
    assert task.get_examples("train") == examples
    rows = list(task.featurize(examples, is_training=False))
    assert all(row.keys() == rows[0].keys() for row in rows)
    for eid, example in enumerate(examples):
        alone = task.featurize([example], is_training=False)
        np.testing.assert_equal(
            [{**row, "eid": eid} for row in alone],
            [row for row in rows if row["eid"] == eid],
        )
    features = Features(rows)
    encoder = loading.make(tiny.weights()).encoder
    head = task.head()
    model = FinetuningModel(task.config, encoder, [head], seed=0)
    assert all(v.path.startswith("task_specific/") for v in head.variables)

    def compute(length):
        batch = features.batch(tf.range(2), length)
        found = model._outputs_and_losses(name, batch)
        return {key: value.numpy() for key, value in found.items()}

    outputs = compute(features.length)
    padded = compute(features.length + 8)
    assert outputs["loss"].shape == (2,)
    metrics = task.score(outputs, examples)
    assert {task.main_metric, "loss"} <= metrics.keys()
    assert all(isinstance(value, float) for value in metrics.values())
    assert task.is_degenerate(outputs, examples) in (True, False)
    answers = task.answers(outputs, examples)
    assert [answer["eid"] for answer in answers] == [0, 1]
    found = json.loads(json.dumps(task.answers(padded, examples)))
    assert golden_arrays.close(found, json.loads(json.dumps(answers)))
    for split in (*task.dev_splits, *task.test_splits):
        files = task.output_files(split, answers)
        assert all("." in name for name in files)
        assert all(text.endswith("\n") for text in files.values())
        assert files or split not in task.test_splits


@pytest.mark.parametrize("name", NAMES)
def test_a_task_is_rebuilt_from_task_json_without_its_data(name, tmp_path):
    task = _task(tmp_path, name, max_seq_length=20, learning_rate=1.0)
    _write(task)
    described = task.describe()
    finetuned.write_description(tmp_path, [task])
    description = finetuned.read_description(tmp_path)
    assert "optimizer" not in description["config"]
    rebuilt = finetuned.make_task(description, task.tokenizer)
    assert (rebuilt.name, rebuilt.describe()) == (name, described)
    assert rebuilt.max_seq_length == 20
    assert rebuilt.config.task == task.config.task
    assert not rebuilt.directory.exists()
    inputs = ["a film", "the plot"][: len(task.input_names)]
    example = rebuilt.make_example(7, inputs)
    assert example.eid == 7
    texts = json.dumps(dataclasses.asdict(example))
    assert all(word in texts for text in inputs for word in text.split())
    assert list(rebuilt.featurize([example], is_training=False))
