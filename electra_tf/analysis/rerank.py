"""Re-ranks a speech recogniser's hypotheses by a model's sentence scores.

From each n-best list the hypothesis with the greatest score is chosen. A score
is one of

    score of the model
    score of the recogniser + w * score of the model

The weight w is the one of `WEIGHTS` with the lowest word error rate on the dev
lists, the smallest one on ties; 0 is the recogniser alone. If hypotheses tie,
the first is chosen. Intervals are bootstrapped over utterances, with the same
samples for all systems, so that differences are paired.

    word error rate = errors / words of the references

Source: Salazar et al., 2020 (log-linear interpolation).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from electra_tf.analysis.batches import padded
from electra_tf.analysis.examples import n_best
from electra_tf.analysis.examples.n_best import Counts, NBest
from electra_tf.analysis.reporting.reports import Report, Table
from electra_tf.analysis.reporting.statistics import Interval, bootstrap, shown
from electra_tf.analysis.scoring import sentence_scores
from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util import console, plotting
from electra_tf.util.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WEIGHTS = np.concatenate([[0.0], np.logspace(-4, 1, 51)])
"""Weights of the model's score beside the recogniser's: 0, and ten a decade
from 1e-4 to 10."""

FIRST_HYPOTHESIS, RECOGNISER, ORACLE = (
    "first hypothesis",
    "recogniser",
    "oracle",
)

_INTERPOLATED = "{} + recogniser"


class ScoredLists(NamedTuple):
    """The scores of the hypotheses of U lists of at most K, as arrays.

    Shapes: recogniser [U, K], model [U, K].
    """

    counts: Counts
    recogniser: np.ndarray | None
    model: Mapping[str, np.ndarray]


ValueFunction = Callable[[ScoredLists], np.ndarray]
"""Values of hypotheses, [U, K]; in each list the greatest is chosen, on ties
the first."""


class System(NamedTuple):
    """A way to choose hypotheses, and its word error rate on the test lists."""

    name: str
    weight: float | None
    dev_error_rate: float | None
    error_rate: Interval
    difference: Interval


def run(config: AnalysisConfig) -> Report:
    """Re-ranks the lists that a configuration names."""
    lists = _read(config)  # all before a model is loaded
    return rerank(config, Scorer.from_config(config), lists)


def rerank(
    config: AnalysisConfig, scorer: Scorer, lists: Mapping[str, Sequence[NBest]]
) -> Report:
    """Re-ranks lists by each score of a model."""
    scores = config.scores or scorer.scores
    found = {name: arrays(some, scorer, scores) for name, some in lists.items()}
    systems = compare(config, found["test"], found.get("dev"))
    return _report(systems, lists, sentence_scores.title(scores[0], "mean"))


def _read(config: AnalysisConfig) -> dict[str, list[NBest]]:
    lists = {"test": n_best.read(config, "test")}
    has_scores = bool(lists["test"][0].scores)
    if config.dev:
        lists["dev"] = n_best.read(config, "dev")
        if bool(lists["dev"][0].scores) != has_scores:
            raise UserError(
                "The lists of --dev must have the recogniser's scores if, and "
                "only if, those of --test have. Received: one has, one has not."
            )
    elif has_scores:
        console.warn(
            "The recogniser's scores are not used: the weight of the model's "
            "score beside them is tuned on --dev, which is not given."
        )
    return lists


def arrays(
    lists: Sequence[NBest], scorer: Scorer, scores: Sequence[str]
) -> ScoredLists:
    """Scores the hypotheses of lists."""
    texts = [text for one in lists for text in one.hypotheses]
    counts = n_best.count_errors(lists)

    def to_array(values: np.ndarray) -> np.ndarray:
        array = np.full(counts.is_valid.shape, -np.inf)
        array[counts.is_valid] = values
        return array

    recogniser = None
    if lists[0].scores:
        recogniser = padded([x.scores for x in lists], -np.inf, np.float64)
    found = sentence_scores.of_texts(scorer, texts, scores)
    model = {name: to_array(values) for name, values in found.items()}
    return ScoredLists(counts, recogniser, model)


def compare(
    config: AnalysisConfig, test: ScoredLists, dev: ScoredLists | None
) -> list[System]:
    """Measures all systems on the test lists."""

    def measure(name: str, values_of: ValueFunction) -> System:
        intervals = _intervals(config, test, values_of)
        on_dev = dev and error_rate(dev, values_of)
        return System(name, None, on_dev, *intervals)

    systems = [measure(FIRST_HYPOTHESIS, _in_order)]
    if test.recogniser is not None:
        systems.append(measure(RECOGNISER, _by_recogniser))
    for name in test.model:
        systems.append(measure(name, by_model(name)))
        if dev is not None and test.recogniser is not None:
            weight = tune(dev, name)
            system = measure(
                _INTERPOLATED.format(name), by_interpolation(name, weight)
            )
            systems.append(system._replace(weight=weight))
    return [*systems, measure(ORACLE, _by_errors)]


def tune(lists: ScoredLists, name: str) -> float:
    """Returns the weight of `WEIGHTS` with the lowest error rate."""
    rates = [
        error_rate(lists, by_interpolation(name, weight)) for weight in WEIGHTS
    ]
    return float(WEIGHTS[np.argmin(rates)])


def error_rate(lists: ScoredLists, values_of: ValueFunction) -> float:
    """Computes the word error rate of the chosen hypotheses, in percent."""
    return _rate(_errors(lists, values_of), lists.counts.num_words)


def _errors(lists: ScoredLists, values_of: ValueFunction) -> np.ndarray:
    """Returns the errors of the chosen hypothesis of each list, int64 [U]."""
    chosen = values_of(lists).argmax(1)
    return np.take_along_axis(lists.counts.num_errors, chosen[:, None], 1)[:, 0]


def _rate(errors: np.ndarray, num_words: np.ndarray) -> float:
    return 100 * float(errors.sum() / max(num_words.sum(), 1))


def _intervals(
    config: AnalysisConfig, lists: ScoredLists, values_of: ValueFunction
) -> tuple[Interval, Interval]:
    """Returns the error rate of the choices, and its change from the first."""
    words = lists.counts.num_words
    errors = _errors(lists, values_of)
    rate, difference = (
        bootstrap(lambda i, x=x: _rate(x[i], words[i]), len(words), config)
        for x in (errors, errors - lists.counts.num_errors[:, 0])
    )
    return rate, difference


def _in_order(lists: ScoredLists) -> np.ndarray:
    """Returns values that choose the first hypothesis."""
    return -np.indices(lists.counts.is_valid.shape)[1]


def _by_errors(lists: ScoredLists) -> np.ndarray:
    """Returns values that choose the hypothesis with the fewest errors."""
    _, errors, is_valid = lists.counts
    return np.where(is_valid, -errors, -np.inf)


def _by_recogniser(lists: ScoredLists) -> np.ndarray:
    return lists.recogniser


def by_model(name: str) -> ValueFunction:
    """Returns a function that values hypotheses by a model's score alone."""
    return lambda lists: lists.model[name]


def by_interpolation(name: str, weight: float) -> ValueFunction:
    """Returns a function that values them by recogniser and model together."""
    if not weight:  # 0 times negative infinity is NaN
        return _by_recogniser
    return lambda lists: lists.recogniser + weight * lists.model[name]


def _report(
    systems: Sequence[System],
    lists: Mapping[str, Sequence[NBest]],
    own_title: str,
) -> Report:
    systems_by_name = {system.name: system for system in systems}
    chosen = _chosen_on_dev(systems)
    headline = {
        "WER, model alone (%)": systems_by_name[own_title].error_rate.value
    }
    if chosen:
        headline["WER, chosen on dev (%)"] = chosen.error_rate.value
    sizes = {f"num_{name}_lists": len(some) for name, some in lists.items()}
    words = sum(len(one.reference.split()) for one in lists["test"])
    return Report(
        what="rerank",
        headline=headline,
        results={
            **sizes,
            "num_test_words": words,
            "weights": WEIGHTS,
            "chosen_on_dev": chosen and chosen.name,
            "systems": [system._asdict() for system in systems],
        },
        tables=[_table(systems, len(lists["test"]), words, chosen)],
        plots={"word_error_rate": lambda axes: _draw(axes, systems)},
    )


def _chosen_on_dev(systems: Sequence[System]) -> System | None:
    """Returns the best system on dev, on ties the first; no oracle."""
    candidates = [system for system in systems if system.name != ORACLE]
    if candidates[0].dev_error_rate is None:
        return None
    return min(candidates, key=lambda system: system.dev_error_rate)


def _table(
    systems: Sequence[System],
    num_lists: int,
    num_words: int,
    chosen: System | None,
) -> Table:
    title = (
        f"Word error rate in percent, with 95 % intervals, of {num_lists:,} "
        f"lists with {num_words:,} words."
    )
    if chosen:
        title += f" Lowest on dev: {chosen.name}."
    header = ["chosen by", "weight", "dev", "test", "test - first hypothesis"]
    rows = [
        [
            system.name,
            "" if system.weight is None else f"{system.weight:.2g}",
            "" if chosen is None else f"{system.dev_error_rate:.2f}",
            shown(system.error_rate, 2),
            ""
            if system.name == FIRST_HYPOTHESIS
            else shown(system.difference, 2),
        ]
        for system in systems
    ]
    if chosen is None:  # without dev lists there is no weight either
        header, *rows = [[row[0], *row[3:]] for row in (header, *rows)]
    return Table(title, header, rows)


def _draw(axes: "Axes", systems: Sequence[System]) -> None:
    """Draws the error rates; the line is that of the first hypotheses."""
    names = [system.name for system in systems]
    rates = {"": [system.error_rate for system in systems]}
    plotting.draw_intervals(axes, names, rates)
    plotting.set_style(axes, "Re-ranking", "word error rate, %")
    axes.axvline(systems[0].error_rate.value, color=plotting.GREY, zorder=0)
