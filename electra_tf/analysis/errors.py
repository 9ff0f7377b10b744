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
token, or among the likeliest five. A piece inside a word repairs no word.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from electra_tf.analysis import examples, words
from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.report import (
    Interval,
    Report,
    Table,
    bootstrap,
    shown,
    wilson,
)
from electra_tf.analysis.scorer import Scorer, score_texts
from electra_tf.analysis.scores import TextScores
from electra_tf.analysis.words import ErrorScore, Items
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNIGRAM, _ALL_WORDS = "unigram", "all words"
_NUM_REPAIRS = 5
_CURVE_POINTS = 200


class Detector(NamedTuple):
    """A detector's figures on the test texts; curve [points, 2]."""

    threshold: float
    precision: Interval
    recall: Interval
    f_half: Interval
    auc: Interval
    auc_over_unigram: Interval
    curve: np.ndarray


def run(config: AnalysisConfig) -> Report:
    """Measures how well a model's scores detect errors."""
    texts = {"dev": read(config, "dev"), "test": read(config, "test")}
    scorer = Scorer.from_config(config)
    vocabulary = scorer.networks.vocabulary
    names = config.scores or scorer.scores
    num_repairs = _NUM_REPAIRS if "mlm" in names else 0
    scores = {
        split: list(
            score_texts(
                scorer, [x.text for x in some], names, num_repairs=num_repairs
            )
        )
        for split, some in texts.items()
    }
    error_scores = {name: words.error_score(name) for name in names}
    error_scores[_UNIGRAM] = unigram(vocabulary)
    error_scores[_ALL_WORDS] = lambda token: 0.0
    dev, test = (
        {
            name: words.items_of_words(some, scores[split], error_score)
            for name, error_score in error_scores.items()
        }
        for split, some in texts.items()
    )
    detectors = measure(config, dev, test)
    ranks = repair_ranks(texts["test"], scores["test"], vocabulary)
    return _report(texts, detectors, ranks if num_repairs else [])


def read(config: AnalysisConfig, split: str) -> list[AnnotatedText]:
    """Reads the texts of a split, whose wrong words are marked."""
    texts = examples.read_texts(config, split)
    for text in texts:
        if not text.is_error:
            raise UserError(f"{text.path} in --{split} marks no wrong words.")
    if len({wrong for text in texts for wrong in text.is_error}) < 2:
        raise UserError(f"--{split} needs correct and wrong words.")
    return texts


def unigram(vocabulary: Vocabulary) -> ErrorScore:
    """Returns -log p of a token by its rank in the vocabulary, nats."""
    return lambda token: math.log(1 + vocabulary.ids[token.token])


def measure(
    config: AnalysisConfig, dev: Mapping[str, Items], test: Mapping[str, Items]
) -> dict[str, Detector]:
    """Tunes the threshold of each detector on dev, and measures it on test."""
    thresholds = {name: words.best_threshold(x) for name, x in dev.items()}

    def statistic(texts: np.ndarray) -> list[float]:
        unigram_auc = words.auc(test[_UNIGRAM], texts)
        values = []
        for name, items in test.items():
            auc = words.auc(items, texts)
            values += words.detection(items, thresholds[name], texts)
            values += [auc, auc - unigram_auc]
        return values

    figures = bootstrap(statistic, test[_UNIGRAM].num_texts, config)
    found = {}
    for number, (name, items) in enumerate(test.items()):
        precision, recall, _ = words.precision_recall(items)
        size = min(len(recall), _CURVE_POINTS)
        points = np.linspace(0, len(recall) - 1, size).astype(int)
        curve = np.stack([precision, recall], -1)[points]
        figures_of_one = figures[5 * number : 5 * number + 5]
        found[name] = Detector(thresholds[name], *figures_of_one, curve)
    return found


def repair_ranks(
    texts: Sequence[AnnotatedText],
    scores: Sequence[TextScores],
    vocabulary: Vocabulary,
) -> list[int]:
    """Returns the rank of the first right repair of each word judged."""
    ranks = []
    for text, one in zip(texts, scores, strict=True):
        if not text.corrections:
            continue
        word_of_token = words.word_of_tokens(text, one)
        for token, word in zip(one.tokens, word_of_token, strict=True):
            own = text.words[word].casefold()
            right = {x.casefold() for x in text.corrections[word]} - {own}
            is_judged = text.is_error[word] and right
            if not is_judged or word_of_token.count(word) > 1:
                continue
            ids = [vocabulary.ids[repair.token] for repair in token.repairs]
            repairs = [
                "" if vocabulary.continues_word[i] else vocabulary.surface(i)
                for i in ids
            ]
            others = [x for x in map(str.casefold, repairs) if x != own]
            hits = [i for i, repair in enumerate(others) if repair in right]
            ranks.append(hits[0] if hits else _NUM_REPAIRS)
    return ranks


def _report(
    texts: Mapping[str, Sequence[AnnotatedText]],
    detectors: Mapping[str, Detector],
    ranks: Sequence[int],
) -> Report:
    sizes = {
        split: {
            "num_texts": len(some),
            "num_words": sum(len(text.words) for text in some),
            "num_errors": sum(sum(text.is_error) for text in some),
        }
        for split, some in texts.items()
    }
    test, own = sizes["test"], next(iter(detectors.values()))
    title = (
        f"Wrong words detected: {test['num_errors']:,} of "
        f"{test['num_words']:,} words in {test['num_texts']:,} texts; 95 % "
        "intervals over texts"
    )
    header = ("detector", "threshold", "precision", "recall", "F0.5", "AUC")
    rows = [
        [name, x.threshold, *map(shown, x[1:6])]
        for name, x in detectors.items()
    ]
    tables = [Table(title, (*header, "AUC over unigram"), rows)]
    repairs = None
    if ranks:
        first = wilson(ranks.count(0), len(ranks))
        any_hit = wilson(sum(x < _NUM_REPAIRS for x in ranks), len(ranks))
        repairs = {"num_words": len(ranks), "first": first}
        repairs["any_of_five"] = any_hit
        header = ("words", "likeliest is correct", "one of five is correct")
        row = [f"{len(ranks):,}", shown(first), shown(any_hit)]
        tables.append(Table("Repairs of wrong words", header, [row]))
    headline = {"F0.5": own.f_half.value, "AUC": own.auc.value}
    results = {**sizes, "detectors": detectors, "repairs": repairs}
    plot = functools.partial(_draw, detectors=detectors)
    plots = {"precision_recall": plot}
    return Report("errors", headline, results, tables, plots)


def _draw(axes: "Axes", detectors: Mapping[str, Detector]) -> None:
    """Draws precision over recall, and a dot at the threshold tuned on dev."""
    for name, found in detectors.items():
        precision, recall = found.curve.T
        style = "--" if name == _ALL_WORDS else "-"
        (line,) = axes.plot(recall, precision, style, label=name)
        dot = (found.recall.value, found.precision.value)
        axes.plot(*dot, "o", color=line.get_color())
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
