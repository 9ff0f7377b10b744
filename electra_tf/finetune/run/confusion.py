"""Confusion matrices of the best trial of a classification.

Letter in shapes: C labels.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from electra_tf.finetune.run import predictions
from electra_tf.finetune.run.experiment import Experiment
from electra_tf.finetune.run.report import Results
from electra_tf.util import console, files, trial_directories

_MAX_LABELS = 12  # that a page is wide enough for
_MAX_DRAWN = 40  # that a picture is


class Confusion(NamedTuple):
    """The answers of a trial on a split.

    Attributes:
      task_name: of the task.
      split: of its data.
      trial: the number of the trial.
      labels: in the order of the counts.
      counts: int [C, C], of the rows with a right label, down, and a
        predicted one, across.
    """

    task_name: str
    split: str
    trial: int
    labels: Sequence[str]
    counts: np.ndarray

    @property
    def title(self) -> str:
        """Says of what it is."""
        return f"{self.task_name} {self.split}, trial {self.trial}"


def write(experiment: Experiment, results: Results) -> list[Confusion]:
    """Writes and shows a table for each dev split of each classification.

    Returns:
      What the tables show, and what is to be drawn: tasks of up to twelve
      labels have a table, of up to forty a picture, those of another kind
      neither.
    """
    drawn = list(_of_best_trials(experiment, results))
    found = [x for x in drawn if len(x.labels) <= _MAX_LABELS]
    config = experiment.config
    directory = trial_directories.of_tasks(
        config.results_dir, config.task.task_name
    )
    directory.mkdir(parents=True, exist_ok=True)
    for task_name in {x.task_name: None for x in found}:
        tables = [table(x) for x in found if x.task_name == task_name]
        path = directory / f"{task_name}_confusion.txt"
        files.atomic_write_text(path, "\n".join(tables))
        console.say()
        console.say("\n".join(tables))
    return drawn


def best_trial(metric: str, split: str, results: Results) -> Mapping[str, Any]:
    """Returns the result of the best trial, of equals the first.

    Args:
      metric: by which it is the best; more is better.
      split: whose metric.
      results: of the trials.
    """
    return max(results, key=lambda result: result["metrics"][split][metric])


def count(
    labels: Sequence[str], answers: Iterable[Mapping[str, Any]]
) -> np.ndarray:
    """Counts answers.

    Returns:
      int [C, C], see `Confusion`.
    """
    numbers = {label: i for i, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), int)
    for answer in answers:
        counts[numbers[answer["label"]], numbers[answer["prediction"]]] += 1
    return counts


def table(confusion: Confusion) -> str:
    """Writes counts, with the share of each label that is found."""
    counts = confusion.counts
    hits = np.diag(counts)
    rows = [["right", *confusion.labels, "recall"]]
    for label, row, hit in zip(confusion.labels, counts, hits, strict=True):
        cells = [f"{value:,}" for value in row]
        rows.append([label, *cells, _share(hit, row.sum())])
    pairs = zip(hits, counts.sum(0), strict=True)
    rows.append(["precision", *(_share(*pair) for pair in pairs), ""])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{confusion.title}: right labels down, predicted ones across"]
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [x.rjust(n) for x, n in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "".join(f"{line}\n" for line in lines)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _of_best_trials(
    experiment: Experiment, results: Results
) -> Iterator[Confusion]:
    names = (name for name, _, _ in experiment.dev_splits())
    for task, _, dev, _ in experiment.tasks:
        of_metrics = [next(names) for _ in dev]
        is_evaluated = {*of_metrics[:1]} & results[0]["metrics"].keys()
        if not is_evaluated or not 0 < len(task.labels) <= _MAX_DRAWN:
            continue
        metric = task.get_scorer().main_metric
        trial = best_trial(metric, of_metrics[0], results)["trial"]
        for split in dev:
            answers = predictions.read_answers(task, split, trial)
            if all(isinstance(x["label"], str) for x in answers):
                counts = count(task.labels, answers)
                yield Confusion(task.name, split, trial, task.labels, counts)
