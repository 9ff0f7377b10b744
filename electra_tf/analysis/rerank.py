"""Re-ranks a speech recogniser's hypotheses by a model's sentence scores.

Each n-best list is an object, in a .json list or on a .jsonl line:

    {"hypotheses": ["the chef eight", "the chef ate"],
     "reference": "the chef ate", "scores": [-0.2, -0.3]}

Hypotheses come best first, with or without the recogniser's scores, higher is
better. The names of HyPoradise, `input` and `output`, with `score` or
`am_score`, are read, too. Words are compared without normalization: give
hypotheses and references the same case and punctuation.

From each n-best list the hypothesis with the greatest score is chosen. A score
is one of

    score of the model
    score of the recogniser + w * score of the model

The weight w is the one of `WEIGHTS` with the lowest word error rate on the dev
lists, the smallest one on ties; 0 is the recogniser alone. If hypotheses tie,
the first is chosen. Intervals are bootstrapped over utterances, with the same
samples for all systems, so that differences are paired.

    word error rate = errors / words of the references

Source: Salazar et al., 2020 (log-linear interpolation); Chen et al., 2023
(HyPoradise).
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.analysis import examples
from electra_tf.analysis.networks import padded
from electra_tf.analysis.report import (
    Interval,
    Report,
    Table,
    bootstrap,
    draw_intervals,
    shown,
)
from electra_tf.analysis.scorer import Scorer, score_sentences
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data.tables import BadRowError, Row
from electra_tf.util.errors import UserError

WEIGHTS = np.concatenate([[0.0], np.logspace(-4, 1, 51)])
"""Weights of the model's score beside the recogniser's: 0, and ten a decade
from 1e-4 to 10."""

FIRST_HYPOTHESIS, RECOGNISER, ORACLE = (
    "first hypothesis",
    "recogniser",
    "oracle",
)


class NBest(NamedTuple):
    """A list of hypotheses."""

    hypotheses: tuple[str, ...]
    reference: str
    scores: tuple[float, ...] = ()


class ScoredLists(NamedTuple):
    """U lists of at most K hypotheses.

    Shapes: num_words [U], num_errors [U, K], is_valid [U, K], recogniser
    [U, K] and each score of the model [U, K], -inf where there is none.
    """

    num_words: np.ndarray
    num_errors: np.ndarray
    is_valid: np.ndarray
    recogniser: np.ndarray | None
    model: Mapping[str, np.ndarray]

    def errors(self, values: np.ndarray) -> np.ndarray:
        """Returns the errors of the hypotheses with the greatest values, [U].

        Shapes: values [U, K].
        """
        chosen = values.argmax(1)[:, None]
        return np.take_along_axis(self.num_errors, chosen, 1)[:, 0]

    def error_rate(self, values: np.ndarray) -> float:
        """Computes the word error rate, in percent."""
        return 100 * float(self.errors(values).sum() / self.num_words.sum())

    def systems(self, weights: Mapping[str, float]) -> dict[str, np.ndarray]:
        """Returns the name of each system -> its values of hypotheses."""
        found = {FIRST_HYPOTHESIS: -np.indices(self.is_valid.shape)[1]}
        if self.recogniser is not None:
            found[RECOGNISER] = self.recogniser
        for name, values in self.model.items():
            found[name] = values
            if name in weights:
                mixed = self.mixed(name, weights[name])
                found[f"{name} + recogniser"] = mixed
        found[ORACLE] = np.where(self.is_valid, -self.num_errors, -np.inf)
        return found

    def mixed(self, name: str, weight: float) -> np.ndarray:
        """Returns the values by recogniser and model together, [U, K]."""
        if not weight:  # 0 times negative infinity is NaN
            return self.recogniser
        return self.recogniser + weight * self.model[name]


class System(NamedTuple):
    """A way to choose hypotheses, and its word error rate on the test lists."""

    name: str
    weight: float | None
    dev_error_rate: float | None
    error_rate: Interval
    difference: Interval


def run(config: AnalysisConfig) -> Report:
    """Re-ranks the lists that a configuration names."""
    lists = {"test": read(config, "test")}
    if config.dev:
        lists["dev"] = read(config, "dev")
        if bool(lists["dev"][0].scores) != bool(lists["test"][0].scores):
            raise UserError(
                "Either both --dev and --test contain recogniser scores, or "
                "neither."
            )
    return rerank(config, Scorer.from_config(config), lists)


def read(config: AnalysisConfig, split: str) -> list[NBest]:
    """Reads the lists of a split; all or none have the recogniser's scores."""
    lists = examples.read_json(config, split, lambda row, path: _parse(row))
    if len({bool(one.scores) for one in lists}) > 1:
        raise UserError(f"Only some lists of --{split} have scores.")
    return lists


def _parse(row: Row) -> NBest:
    """Parses an n-best list."""
    name = next((x for x in ("input", "nbest") if x in row), "hypotheses")
    hypotheses = row.value(name, list)
    if not hypotheses or not all(isinstance(x, str) for x in hypotheses):
        raise BadRowError(f"The hypotheses are {hypotheses}.")
    reference = row.value("output" if "output" in row else "reference", str)
    scores: list = []
    for name in ("am_score", "score", "scores"):
        scores = row.value(name, list, scores)
    if scores:
        array = np.array(scores)
        is_number = array.dtype.kind in "if" and np.isfinite(array).all()
        if array.shape != (len(hypotheses),) or not is_number:
            raise BadRowError(
                f"{len(hypotheses)} hypotheses have the scores {scores}."
            )
    return NBest(tuple(hypotheses), reference, tuple(map(float, scores)))


def arrays(
    lists: Sequence[NBest], scorer: Scorer, scores: Sequence[str]
) -> ScoredLists:
    """Scores the hypotheses of lists, and counts their word errors."""
    import jiwer

    def num_errors(reference: str, hypothesis: str) -> int:
        # jiwer splits at spaces alone.
        words = (" ".join(text.split()) for text in (reference, hypothesis))
        found = jiwer.process_words(*words)
        return found.substitutions + found.deletions + found.insertions

    errors = [
        [num_errors(one.reference, text) for text in one.hypotheses]
        for one in lists
    ]
    is_valid = padded([[1] * len(x) for x in errors], dtype=bool)
    texts = [text for one in lists for text in one.hypotheses]
    model = {}
    for name, values in score_sentences(scorer, texts, scores).items():
        model[name] = np.full(is_valid.shape, -np.inf)
        model[name][is_valid] = values
    recogniser = None
    if lists[0].scores:
        recogniser = padded([x.scores for x in lists], -np.inf, np.float64)
    num_words = np.array([len(one.reference.split()) for one in lists])
    return ScoredLists(
        num_words, padded(errors, dtype=np.int64), is_valid, recogniser, model
    )


def tune(lists: ScoredLists, name: str) -> float:
    """Returns the weight of `WEIGHTS` with the lowest error rate."""
    rates = [lists.error_rate(lists.mixed(name, x)) for x in WEIGHTS]
    return float(WEIGHTS[np.argmin(rates)])


def rerank(
    config: AnalysisConfig, scorer: Scorer, lists: Mapping[str, Sequence[NBest]]
) -> Report:
    """Re-ranks lists by each score of a model."""
    scores = config.scores or scorer.scores
    found = {name: arrays(some, scorer, scores) for name, some in lists.items()}
    test, dev = found["test"], found.get("dev")
    weights, dev_rates = {}, {}
    if dev is not None:
        if dev.recogniser is not None:
            weights = {name: tune(dev, name) for name in dev.model}
        of_dev = dev.systems(weights).items()
        dev_rates = {name: dev.error_rate(x) for name, x in of_dev}
    of_test = test.systems(weights)
    errors = np.array([test.errors(values) for values in of_test.values()])

    def statistic(lists: np.ndarray) -> np.ndarray:
        num_errors = errors[:, lists].sum(1)
        rates = 100 * num_errors / test.num_words[lists].sum()
        return np.concatenate([rates, rates - rates[0]])

    intervals = bootstrap(statistic, len(test.num_words), config)
    weights = {f"{name} + recogniser": x for name, x in weights.items()}
    systems = [
        System(name, weights.get(name), dev_rates.get(name), rate, difference)
        for name, rate, difference in zip(
            of_test,
            intervals[: len(of_test)],
            intervals[len(of_test) :],
            strict=True,
        )
    ]
    return _report(systems, lists, f"{scores[0]}, mean")


def _report(
    systems: Sequence[System],
    lists: Mapping[str, Sequence[NBest]],
    own_title: str,
) -> Report:
    rates = {system.name: system.error_rate for system in systems}
    headline = {"WER, model alone (%)": rates[own_title].value}
    words = sum(len(one.reference.split()) for one in lists["test"])
    title = (
        f"Word error rate in percent, with 95 % intervals, of "
        f"{len(lists['test']):,} lists with {words:,} words."
    )
    chosen = None
    if "dev" in lists:  # the first of the best on dev, but the oracle
        chosen = min(systems[:-1], key=lambda system: system.dev_error_rate)
        headline["WER, chosen on dev (%)"] = chosen.error_rate.value
        title += f" Lowest on dev: {chosen.name}."
    header = ["chosen by", "weight", "dev", "test", "test - first hypothesis"]
    rows = [
        [
            system.name,
            "" if system.weight is None else f"{system.weight:.2g}",
            "" if chosen is None else f"{system.dev_error_rate:.2f}",
            shown(system.error_rate, 2),
            shown(system.difference, 2),
        ]
        for system in systems
    ]
    results = {
        **{f"num_{name}_lists": len(some) for name, some in lists.items()},
        "num_test_words": words,
        "chosen_on_dev": chosen and chosen.name,
        "systems": systems,
    }
    plot = functools.partial(
        draw_intervals,
        labels=list(rates),
        series={"": list(rates.values())},
        title="Re-ranking: word error rate, %",
        line=systems[0].error_rate.value,
    )
    tables, plots = [Table(title, header, rows)], {"word_error_rate": plot}
    return Report("rerank", headline, results, tables, plots)
