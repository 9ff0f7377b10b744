"""Re-ranks a speech recogniser's hypotheses by a model's sentence scores.

Each n-best list is an object, in a .json list or on a .jsonl line:

    {"hypotheses": ["the chef eight", "the chef ate"],
     "reference": "the chef ate", "scores": [-0.2, -0.3]}

Hypotheses come best first, with or without the recogniser's scores, higher is
better. The field names of HyPoradise are also read. Each system chooses the
hypothesis with its greatest value, of equal ones the first: a score of the
model, the recogniser's, or

    score of the recogniser + w * score of the model

with the w of `WEIGHTS` that has the lowest word error rate on the dev lists.
Intervals resample utterances, the same for all systems.

Source: Salazar et al., 2020 (log-linear interpolation); Chen et al., 2023
(HyPoradise).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from keras.utils import pad_sequences

from electra_tf.analysis import examples
from electra_tf.analysis.report import Report, Table, bootstrap
from electra_tf.analysis.scorer import Scorer, score_sentences
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data.tables import BadRowError, Row
from electra_tf.util.errors import UserError

WEIGHTS = np.concatenate([[0.0], np.logspace(-4, 1, 51)])
"""Weights of the model's score beside the recogniser's: 0, and ten a decade
from 1e-4 to 10."""
FIRST, RECOGNISER, ORACLE = "first hypothesis", "recogniser", "oracle"


class NBest(NamedTuple):
    hypotheses: tuple[str, ...]
    reference: str
    scores: tuple[float, ...] = ()


class ScoredLists(NamedTuple):
    """U lists of at most K hypotheses, and the values of systems."""

    num_words: np.ndarray  # [U]
    num_errors: np.ndarray  # [U, K]
    values: dict[str, np.ndarray]  # [U, K], -inf past the end of a list

    def errors(self, values: np.ndarray) -> np.ndarray:
        """Returns the errors of the likeliest hypotheses: [U, K] -> [U]."""
        chosen = values.argmax(1)[:, None]
        return np.take_along_axis(self.num_errors, chosen, 1)[:, 0]

    def error_rate(self, values: np.ndarray) -> float:
        return 100 * float(self.errors(values).sum() / self.num_words.sum())

    def mixed(self, name: str, weight: float) -> np.ndarray:
        """Returns the values by recogniser and model together, [U, K]."""
        if not weight:  # 0 times negative infinity is NaN
            return self.values[RECOGNISER]
        return self.values[RECOGNISER] + weight * self.values[name]


def run(config: AnalysisConfig) -> Report:
    splits = ["test", *["dev"] * bool(config.dev)]
    lists = {x: examples.read_json(config, x, parse) for x in splits}
    if len({bool(x.scores) for some in lists.values() for x in some}) > 1:
        raise UserError(
            "Either all lists of --dev and --test contain recogniser scores, "
            "or none."
        )
    return rerank(config, Scorer.from_config(config), lists)


def parse(row: Row, path: str) -> NBest:
    name = next((x for x in ("input", "nbest") if x in row), "hypotheses")
    hypotheses = row.value(name, list)
    if not hypotheses or not all(isinstance(x, str) for x in hypotheses):
        raise BadRowError(f"The hypotheses are {hypotheses}.")
    reference = row.value("output" if "output" in row else "reference", str)
    scores: list = []
    for name in ("am_score", "score", "scores"):
        scores = row.value(name, list, scores)
    array = np.array(scores)
    is_number = array.dtype.kind in "if" and np.isfinite(array).all()
    if scores and not (is_number and array.shape == (len(hypotheses),)):
        raise BadRowError(
            f"{len(hypotheses)} hypotheses have the scores {scores}."
        )
    return NBest(tuple(hypotheses), reference, tuple(map(float, scores)))


def score_lists(
    lists: Sequence[NBest], scorer: Scorer, scores: Sequence[str]
) -> ScoredLists:
    """Scores the hypotheses of lists, and counts their word errors."""
    import jiwer

    def num_errors(reference: str, hypothesis: str) -> int:
        # jiwer splits at spaces alone.
        words = (" ".join(text.split()) for text in (reference, hypothesis))
        counts = jiwer.process_words(*words)
        return counts.substitutions + counts.deletions + counts.insertions

    errors = [
        [num_errors(one.reference, text) for text in one.hypotheses]
        for one in lists
    ]
    num_words = np.array([len(one.reference.split()) for one in lists])
    sizes = np.array([len(one.hypotheses) for one in lists])
    places = np.arange(sizes.max())
    is_valid = places < sizes[:, None]  # [U, K]
    values = {FIRST: np.where(is_valid, -places, -np.inf)}
    if lists[0].scores:
        values[RECOGNISER] = np.full(is_valid.shape, -np.inf)
        values[RECOGNISER][is_valid] = [y for x in lists for y in x.scores]
    texts = [text for one in lists for text in one.hypotheses]
    for name, scores_of_texts in score_sentences(scorer, texts, scores).items():
        values[name] = np.full(is_valid.shape, -np.inf)
        values[name][is_valid] = scores_of_texts
    return ScoredLists(num_words, pad_sequences(errors, padding="post"), values)


def tune(lists: ScoredLists, name: str) -> float:
    """Returns the weight of `WEIGHTS` with the lowest error rate."""
    rates = [lists.error_rate(lists.mixed(name, x)) for x in WEIGHTS]
    return float(WEIGHTS[np.argmin(rates)])


def rerank(
    config: AnalysisConfig, scorer: Scorer, lists: Mapping[str, Sequence[NBest]]
) -> Report:
    """Measures the error rates of all systems, after tuning on dev lists."""
    scores = config.scores or scorer.scores
    scored = {k: score_lists(some, scorer, scores) for k, some in lists.items()}
    test, dev = scored["test"], scored.get("dev")
    mixtures: dict[str, tuple[str, float]] = {}
    if dev is not None and RECOGNISER in dev.values:
        for name in list(dev.values)[2:]:
            mixtures[f"{name} + recogniser"] = name, tune(dev, name)
    for one in scored.values():
        is_valid = one.values[FIRST] > -np.inf
        one.values.update({k: one.mixed(*x) for k, x in mixtures.items()})
        one.values[ORACLE] = np.where(is_valid, -one.num_errors, -np.inf)
    errors = np.array([test.errors(values) for values in test.values.values()])

    def statistic(lists: np.ndarray) -> np.ndarray:
        num_errors = errors[:, lists].sum(1)
        rates = 100 * num_errors / test.num_words[lists].sum()
        return np.concatenate([rates, rates - rates[0]])

    intervals = bootstrap(statistic, len(test.num_words), config)
    systems = {
        name: {
            "weight": mixtures[name][1] if name in mixtures else None,
            "dev_error_rate": dev and dev.error_rate(dev.values[name]),
            "error_rate": intervals[i],
            "difference": intervals[len(errors) + i],
        }
        for i, name in enumerate(test.values)
    }
    num_words = int(test.num_words.sum())
    title = (
        f"Word error rate in percent, with 95 % intervals, of "
        f"{len(lists['test']):,} lists with {num_words:,} words; difference "
        f"from the {FIRST}."
    )
    chosen = None
    if dev is not None:  # the first of the best on dev, but the oracle
        names = [name for name in systems if name != ORACLE]
        chosen = min(names, key=lambda x: systems[x]["dev_error_rate"])
        title += f" Lowest on dev: {chosen}."
    results = {
        **{f"num_{name}_lists": len(some) for name, some in lists.items()},
        "num_test_words": num_words,
        "chosen_on_dev": chosen,
        "systems": systems,
    }
    return Report(results, [Table(title, systems, digits=2)])
