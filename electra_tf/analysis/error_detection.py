"""Detection of wrong words in annotated text, compared with baselines.

Each score of a model gives a detector. It flags the words whose error score,
the maximum over their word pieces, reaches a threshold: the one with the
greatest F0.5 on the dev texts. Error scores are

    discriminator   P(replaced)
    other scores    -log p of the token, nats
    unigram         -log p of the token by its frequency alone, estimated by
                    Zipf's law from its rank in the vocabulary
    all words       the same for all: the precision is the share of errors

All scores of the model are compared unless --scores names some. If mlm is among
them, which takes a forward pass for each token, its repairs are judged as well:
of the wrong words that are one token and have known corrections, other than of
their letter case, the share for which a correction is the likeliest other
token, or among the likeliest five.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from electra_tf.analysis import detection_metrics
from electra_tf.analysis.detection_metrics import DetectionMetrics, ResampledAuc
from electra_tf.analysis.examples import annotated_text
from electra_tf.analysis.examples.annotated_text import AnnotatedText
from electra_tf.analysis.reporting.reports import Report, Table
from electra_tf.analysis.reporting.statistics import (
    Interval,
    bootstrap,
    shown,
    wilson,
)
from electra_tf.analysis.scoring import progress, word_scores
from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.analysis.scoring.scores import Items, TextScores
from electra_tf.analysis.scoring.word_scores import ErrorScore
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNIGRAM, _ALL_WORDS = "unigram", "all words"
_NUM_REPAIRS = 5
_CURVE_POINTS = 200
_HEADER = ("detector", "threshold", "precision", "recall", "F0.5", "AUC")


class ScoredSplit(NamedTuple):
    """Texts of a split and their scores."""

    texts: Sequence[AnnotatedText]
    scores: Sequence[TextScores]

    def items(self, error_score: ErrorScore) -> Items:
        """Returns the words with their error scores."""
        return word_scores.items_of_words(*self, error_score)


class DetectorFindings(NamedTuple):
    """A detector's metrics on the test texts."""

    detection: DetectionMetrics
    gain: Interval
    curve: np.ndarray


def run(config: AnalysisConfig) -> Report:
    """Measures how well a model's scores detect errors."""
    texts = {"dev": read(config, "dev"), "test": read(config, "test")}
    scorer = Scorer.from_config(config)
    vocabulary = scorer.networks.vocabulary
    names = config.scores or scorer.scores
    num_repairs = _NUM_REPAIRS if "mlm" in names else 0
    splits = {}
    for split, split_texts in texts.items():
        strings = [text.text for text in split_texts]
        found = progress.score_texts(
            scorer, strings, names, num_repairs=num_repairs
        )
        splits[split] = ScoredSplit(split_texts, list(found))
    error_scores = {name: word_scores.error_score(name) for name in names}
    error_scores[_UNIGRAM] = unigram(vocabulary)
    error_scores[_ALL_WORDS] = lambda token: 0.0
    measured = measure(config, splits, error_scores)
    repairs = (
        evaluate_repairs(splits["test"], vocabulary) if num_repairs else None
    )
    return _report(splits, measured, repairs)


def read(config: AnalysisConfig, split: str) -> list[AnnotatedText]:
    """Reads the texts of a split, whose wrong words are marked."""
    texts = annotated_text.read(config, split)
    for text in texts:
        if not text.is_error:
            raise UserError(
                f"`{split}` must name texts whose wrong words are marked, .tsv "
                f"or .src. Received: {text.path}. Leave it out."
            )
    kinds = {wrong for text in texts for wrong in text.is_error}
    if len(kinds) < 2:
        raise UserError(
            f"`{split}` must hold correct and wrong words. Received: only one "
            f"kind, in {texts[0].path}. Give more texts."
        )
    return texts


def unigram(vocabulary: Vocabulary) -> ErrorScore:
    """Returns -log p of a token by its rank in the vocabulary, nats."""
    return lambda token: math.log(1 + vocabulary.ids[token.token])


def measure(
    config: AnalysisConfig,
    splits: Mapping[str, ScoredSplit],
    error_scores: Mapping[str, ErrorScore],
) -> dict[str, DetectorFindings]:
    """Tunes the threshold of each detector on dev, and measures it on test."""
    baseline = ResampledAuc(splits["test"].items(error_scores[_UNIGRAM]))
    found = {}
    for name, error_score in error_scores.items():
        items = splits["test"].items(error_score)
        threshold = detection_metrics.best_threshold(
            splits["dev"].items(error_score)
        )
        auc = ResampledAuc(items)
        gain = bootstrap(
            lambda texts, auc=auc: auc(texts) - baseline(texts),
            items.num_texts,
            config,
        )
        precision, recall, _ = detection_metrics.curve(items)
        curve = _thinned(np.stack([precision, recall], -1))
        measures = detection_metrics.measure(items, threshold, config)
        found[name] = DetectorFindings(measures, gain, curve)
    return found


class Repairs(NamedTuple):
    """How often the likeliest other tokens repair a wrong word."""

    num_words: int
    first: Interval
    any_of_five: Interval


def evaluate_repairs(
    split: ScoredSplit, vocabulary: Vocabulary
) -> Repairs | None:
    """Compares repairs with known corrections, ignoring case."""
    ranks = [
        rank
        for text, scores in zip(*split, strict=True)
        for rank in _ranks(text, scores, vocabulary)
    ]
    if not ranks:
        return None
    first = sum(rank == 0 for rank in ranks)
    any_of_five = sum(rank < _NUM_REPAIRS for rank in ranks)
    shares = (wilson(hits, len(ranks)) for hits in (first, any_of_five))
    return Repairs(len(ranks), *shares)


def _ranks(
    text: AnnotatedText, scores: TextScores, vocabulary: Vocabulary
) -> list[int]:
    """Returns the rank of the first right repair of each word judged."""
    if not text.corrections:
        return []
    words = word_scores.word_of_tokens(text, scores)
    ranks = []
    for token, word in zip(scores.tokens, words, strict=True):
        own = text.words[word].casefold()
        corrections = {x.casefold() for x in text.corrections[word]} - {own}
        if words.count(word) > 1 or not (text.is_error[word] and corrections):
            continue
        ids = [vocabulary.ids[repair.token] for repair in token.repairs]
        surfaces = [vocabulary.surface(i).casefold() for i in ids]
        repairs = [surface for surface in surfaces if surface != own]
        hits = [i for i, repair in enumerate(repairs) if repair in corrections]
        ranks.append(hits[0] if hits else _NUM_REPAIRS)
    return ranks


def _report(
    splits: Mapping[str, ScoredSplit],
    measured: Mapping[str, DetectorFindings],
    repairs: Repairs | None,
) -> Report:
    own_metrics = next(iter(measured.values())).detection
    results = {
        **{name: _sizes(split.texts) for name, split in splits.items()},
        "detectors": {
            name: x.detection._asdict()
            | {"auc_over_unigram": x.gain, "curve": x.curve}
            for name, x in measured.items()
        },
        "repairs": repairs,
    }
    return Report(
        what="errors",
        headline={
            "F0.5": own_metrics.f_half.value,
            "AUC": own_metrics.auc.value,
        },
        results=results,
        tables=_tables(results, measured, repairs),
        plots={"precision_recall": lambda axes: _draw(axes, measured)},
    )


def _sizes(texts: Sequence[AnnotatedText]) -> dict[str, int]:
    return {
        "num_texts": len(texts),
        "num_words": sum(len(text.words) for text in texts),
        "num_errors": sum(sum(text.is_error) for text in texts),
    }


def _thinned(curve: np.ndarray) -> np.ndarray:
    """Thins a curve to at most `_CURVE_POINTS`, keeping both ends."""
    size = min(len(curve), _CURVE_POINTS)
    return curve[np.linspace(0, len(curve) - 1, size).astype(int)]


def _tables(
    results: Mapping[str, Any],
    measured: Mapping[str, DetectorFindings],
    repairs: Repairs | None,
) -> list[Table]:
    test = results["test"]
    title = (
        f"Wrong words detected: {test['num_errors']:,} of "
        f"{test['num_words']:,} words in {test['num_texts']:,} texts; 95 % "
        "intervals over texts"
    )
    rows = [
        [name, x.detection.threshold, *map(shown, (*x.detection[1:], x.gain))]
        for name, x in measured.items()
    ]
    tables = [Table(title, (*_HEADER, "AUC over unigram"), rows)]
    if repairs is not None:
        row = [f"{repairs.num_words:,}", *map(shown, repairs[1:])]
        header = ("words", "likeliest is correct", "one of five is correct")
        tables.append(Table("Repairs of wrong words", header, [row]))
    return tables


def _draw(axes: "Axes", measured: Mapping[str, DetectorFindings]) -> None:
    """Draws precision over recall, and a dot at the threshold tuned on dev."""
    for name, found in measured.items():
        precision, recall = found.curve.T
        style = "--" if name == _ALL_WORDS else "-"
        (line,) = axes.plot(recall, precision, style, label=name)
        at = found.detection
        dot = (at.recall.value, at.precision.value)
        axes.plot(*dot, "o", color=line.get_color())
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
