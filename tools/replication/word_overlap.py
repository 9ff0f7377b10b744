r"""Measures how much of a task of text pairs the words in common decide.

    python tools/replication/word_overlap.py --data_dir=DIR \
        --model_name=NAME --task_names=qnli

takes the flags of run_finetuning, and compares its trials with a rule that
learns nothing but one threshold: the share of the first text's words that the
second holds, too, each word weighted by its rarity (inverse document frequency
in the second texts of training rows). The last line printed is JSON: the
accuracy of the rule on dev rows; and, for each trial, its accuracy, the share
of rows that it answers as the rule does, and its accuracy where the rule is
right and where it is wrong. An encoder that has learnt to compare the words of
two texts, and no more, answers as the rule does
(docs/replication/hours.md#what-qnli-asks-for).
"""

import collections
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.examples import InputExample
from electra_tf.finetune.run import experiment, finetuning_run, predictions
from electra_tf.finetune.task import Task
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

_WORD = re.compile(r"\w+")


def main(config: FinetuningConfig) -> None:
    """Measures the rule and the trials, and prints both."""
    task = finetuning_run.prepare(config).tasks[0].task
    if len(task.labels) != 2 or len(task.input_names) != 2:
        raise UserError(
            "The task must have pairs of texts and two labels. Received: "
            f"{task.name}, {task.KIND} of {', '.join(task.input_names)} with "
            f"{len(task.labels)} labels."
        )
    split = task.dev_splits[0]
    dev = task.get_examples(split)
    trials = range(1, config.run.num_trials + 1)
    answers = [_read_answers(task, split, number, dev) for number in trials]
    train = experiment.training_examples(task)
    print(json.dumps(measure(train, dev, task.labels[1], answers)))


def _read_answers(
    task: Task, split: str, trial: int, pairs: Sequence[InputExample]
) -> list[str]:
    """Reads the labels that a trial gave to the pairs of a split."""
    answers = predictions.read_answers(task, split, trial)
    if [(x["eid"], x["label"]) for x in answers] != [
        (pair.eid, pair.label) for pair in pairs
    ]:
        raise UserError(
            f"The predictions of trial {trial} must be of the {len(pairs):,} "
            f"{split} rows of {task.name}. Received: {len(answers):,}, or "
            "others. Give the flags of the run, or run it again."
        )
    return [answer["prediction"] for answer in answers]


def measure(
    train: Sequence[InputExample],
    dev: Sequence[InputExample],
    label: str,
    answers: Sequence[Sequence[str]],
) -> dict[str, Any]:
    """Compares a rule of words in common with answers."""
    rarity = _rarity([pair.text_b for pair in train])
    known, is_label = _shares(train, rarity), _equal(train, label)
    threshold, is_above = _best_threshold(known, is_label)
    rule = (_shares(dev, rarity) > threshold) == is_above
    truth = _equal(dev, label)
    is_right = rule == truth
    found = {
        "num_train_rows": len(train),
        "num_rows": len(dev),
        "threshold": threshold,
        "accuracy": _share(is_right),
        "trials": [],
    }
    for trial in answers:
        answered = np.array([answer == label for answer in trial])
        correct = answered == truth
        found["trials"].append(
            {
                "accuracy": _share(correct),
                "as_the_rule": _share(answered == rule),
                "accuracy_where_right": _share(correct[is_right]),
                "accuracy_where_wrong": _share(correct[~is_right]),
            }
        )
    return found


def _share(marks: np.ndarray) -> float | None:
    """Returns the share of marks that are set; None without any mark."""
    return float(marks.mean()) if marks.size else None


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _equal(pairs: Sequence[InputExample], label: str) -> np.ndarray:
    return np.array([pair.label == label for pair in pairs])


def _rarity(texts: Sequence[str]) -> Mapping[str, float]:
    """Returns word -> inverse document frequency, log(texts / texts with
    it)."""
    counts = collections.Counter(w for x in texts for w in set(_words(x)))
    most = math.log(len(texts))
    found = {word: most - math.log(n) for word, n in counts.items()}
    return collections.defaultdict(lambda: most, found)


def _shares(
    pairs: Sequence[InputExample], rarity: Mapping[str, float]
) -> np.ndarray:
    """Returns the weighted share of words in common, float64 [pairs]."""
    shares = []
    for pair in pairs:
        words, others = _words(pair.text_a), set(_words(pair.text_b))
        weights = [rarity[word] for word in words]
        common = sum(rarity[word] for word in words if word in others)
        shares.append(common / (sum(weights) or 1.0))
    return np.array(shares)


def _best_threshold(
    shares: np.ndarray, is_label: np.ndarray
) -> tuple[float, bool]:
    """Finds the threshold of the shares that is right most often."""
    values, place = np.unique(shares, return_inverse=True)
    labelled = np.bincount(place, is_label)
    others = np.bincount(place, ~is_label)
    # Pairs that are right if the label is above each value.
    right = is_label.sum() + np.cumsum(others - labelled)
    best, worst = np.argmax(right), np.argmin(right)
    is_above = right[best] >= len(shares) - right[worst]
    return float(values[best if is_above else worst]), bool(is_above)


if __name__ == "__main__":
    config_flags.run(main, FinetuningConfig)
