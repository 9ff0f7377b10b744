import functools
import json

import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.finetune.run import finetuning_run
from electra_tf.util.errors import UserError

QA_LENGTHS = {"max_query_length": 6, "doc_stride": 8}


_task = functools.partial(tiny.task, **QA_LENGTHS)


def _squad(*questions, context="it is a very good film"):
    paragraph = {"context": context, "qas": questions}
    return json.dumps({"data": [{"paragraphs": [paragraph]}]})


def _question(name="q", **fields):
    answers = [{"text": "good", "answer_start": 13}]
    return {"id": name, "question": "what", "answers": answers, **fields}


@pytest.mark.parametrize(
    "leaves",
    [
        {"max_query_length": 64, "doc_stride": 128},
        {"doc_stride": 24},
        {"max_seq_length": 16},
    ],
)
def test_windows_of_a_row_must_overlap(tmp_path, leaves):
    with pytest.raises(UserError):
        _task("squad", tmp_path, **leaves)
    assert _task("squad", tmp_path, doc_stride=23).max_seq_length == 32


def test_only_squad_2_has_questions_without_an_answer(tmp_path):
    content = _squad(_question("r"), _question(answers=[], is_impossible=True))
    task = _task("squad", tmp_path)
    assert task.describe()["has_unanswerable"]
    tiny.write_split(task, "train", content)
    _, example = examples = task.get_examples("train")
    assert example.is_impossible
    list(task.featurize(examples, is_training=True))
    task = _task("squadv1", tmp_path)
    assert not task.describe()["has_unanswerable"]
    tiny.write_split(task, "train", content)
    with pytest.raises(UserError, match="question q: "):
        task.get_examples("train")
    tiny.write_split(task, "dev", _squad(_question(is_impossible=True)))
    assert not task.get_examples("dev")[0].is_impossible


def test_only_a_test_split_may_lack_answers(tmp_path):
    task = _task("squad", tmp_path)
    for split in ("train", "dev", "test"):
        tiny.write_split(task, split, _squad({"id": "q", "question": "what"}))
    (example,) = task.get_examples("test")
    assert example.answers == () and not example.is_impossible
    for split in ("train", "dev"):
        with pytest.raises(UserError, match=rf"{split}\.json"):
            task.get_examples(split)


@pytest.mark.slow
@pytest.mark.parametrize("head", ["electra", "hugging_face"])
def test_a_run_learns_where_the_answer_is(tmp_path, head):
    config = tiny.config(
        tmp_path,
        task_names=("own",),
        task_kind="qa",
        has_unanswerable=True,
        head=head,
        num_train_epochs=30.0,
        layerwise_lr_decay=1.0,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        write_test_outputs=True,
        **QA_LENGTHS,
    )
    tiny.write_model(tmp_path)
    random = np.random.default_rng(0)
    for split, size in (("train", 96), ("dev", 32), ("test", 4)):
        rows = []
        for number in range(size):
            words = list(random.choice(tiny.WORDS[2:], 30))
            answer = "good" if number % 2 else None
            if answer:
                words[random.integers(30)] = answer
            row = {"question": "what", "context": " ".join(words)}
            rows.append({**row, "id": f"{split}{number}", "answer": answer})
        tiny.write(tmp_path, "own", f"{split}.jsonl", rows)
    finetuning_run.run(config)
    model_dir = tmp_path / "models/tiny"
    results = json.loads(
        (model_dir / "results/own_results.json").read_text("utf-8")
    )
    (trial,) = results["trials"]
    metrics = trial["metrics"]["dev"]
    assert metrics["best_f1"] > 95 and metrics["best_exact"] > 95
    (path,) = model_dir.rglob("task.json")
    described = json.loads(path.read_text("utf-8"))["tasks"]["own"]
    assert described["threshold"] == metrics["best_f1_thresh"]
    answers_path = model_dir / "results/own_qa/trial_1/own_preds.json"
    preds = json.loads(answers_path.read_text("utf-8"))
    assert len(preds) == 32 and preds["dev1"] == "good"
    answers_path = model_dir / "submissions/trial_1/own_test.json"
    assert len(json.loads(answers_path.read_text("utf-8"))) == 4
    figures = answers_path.with_name("own_test_eval.json").read_text("utf-8")
    figures = json.loads(figures)
    assert figures["HasAns_total"] == figures["NoAns_total"] == 2
    assert trial["metrics"]["test"]["f1"] == figures["f1"]
