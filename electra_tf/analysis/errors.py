"""Detection of wrong words in annotated text, compared with baselines.

Each score of a model gives a detector. It flags the words whose error score,
the maximum over their word pieces, reaches a threshold: the one with the
greatest F0.5 on the dev texts. Error scores are

    discriminator   P(replaced)
    other scores    -log p of the token, nats
    unigram         -log p of the token by its frequency alone, estimated by
                    Zipf's law from its rank in the vocabulary
    all words       the same for all: the precision is the share of errors

    F0.5 = 1.25 P R / (0.25 P + R)

With mlm, which takes a forward pass for each token, its repairs are judged as
well: of the wrong words that are one token and have known corrections, other
than of their letter case, the share for which a correction is the likeliest
other token, or among the likeliest five. A piece inside a word repairs no word.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from electra_tf.analysis import examples, words
from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.report import (
    Plot,
    Report,
    Table,
    bootstrap,
    wilson,
)
from electra_tf.analysis.scorer import Scorer, score_texts
from electra_tf.analysis.scores import TextScores
from electra_tf.analysis.words import NO_ERROR_SCORE, Items
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

NUM_REPAIRS = 5
FIGURES = ("precision", "recall", "f_half", "auc", "auc_over_unigram")


def run(config: AnalysisConfig) -> Report:
    """Measures how well a model's scores detect errors."""
    texts = {"dev": read(config, "dev"), "test": read(config, "test")}
    scorer = Scorer.from_config(config)
    vocabulary = scorer.networks.vocabulary
    names = config.scores or scorer.scores
    num_repairs = NUM_REPAIRS if "mlm" in names else 0
    error_scores = {name: words.error_score(name) for name in names}
    error_scores |= {
        "unigram": lambda token: math.log(1 + vocabulary.ids[token.token]),
        "all words": lambda token: 0.0,
    }
    items = {}
    for split, some in texts.items():
        strings = [text.text for text in some]
        scores = [*score_texts(scorer, strings, names, num_repairs=num_repairs)]
        items[split] = {
            name: words.items_of_words(some, scores, error_score)
            for name, error_score in error_scores.items()
        }
    detectors = measure(config, items["dev"], items["test"])
    ranks = repair_ranks(texts["test"], scores, vocabulary)
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


def measure(
    config: AnalysisConfig, dev: Mapping[str, Items], test: Mapping[str, Items]
) -> dict[str, dict[str, Any]]:
    """Tunes the threshold of each detector on dev, and measures it on test."""
    thresholds = {name: best_threshold(items) for name, items in dev.items()}
    counts = {x: counts_by_text(test[x], thresholds[x]) for x in test}

    def statistic(texts: np.ndarray) -> list[float]:
        unigram = words.auc(test["unigram"], texts)
        values = []
        for name, items in test.items():
            auc = words.auc(items, texts)
            values += detection(*counts[name][:, texts].sum(1).tolist())
            values += [auc, auc - unigram]
        return values

    figures = bootstrap(statistic, test["unigram"].num_texts, config)
    detectors = {}
    for number, (name, items) in enumerate(test.items()):
        some = figures[len(FIGURES) * number :][: len(FIGURES)]
        precision, recall, _ = precision_recall(items)
        points = np.linspace(0, len(recall) - 1, min(len(recall), 200))
        detectors[name] = {
            "threshold": thresholds[name],
            **dict(zip(FIGURES, some, strict=True)),
            "curve": np.stack([precision, recall], -1)[points.astype(int)],
        }
    return detectors


def counts_by_text(items: Items, threshold: float) -> np.ndarray:
    """Counts hits, flagged items and errors of each text, [3, texts]."""
    is_flagged = items.error_score >= threshold
    kinds = (items.is_error & is_flagged, is_flagged, items.is_error)
    return np.array([np.bincount(items.text, x) for x in kinds])


def detection(
    hits: float, num_flagged: float, num_errors: float
) -> tuple[float, float, float]:
    """Computes precision, recall and F0.5."""
    precision = hits / num_flagged if num_flagged else 0.0
    if not num_errors:
        return precision, math.nan, math.nan
    f_half = 1.25 * hits / (0.25 * num_errors + num_flagged)
    return precision, hits / num_errors, f_half


def precision_recall(items: Items) -> tuple[np.ndarray, ...]:
    """Computes precision and recall at each threshold that flags a word."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, thresholds = precision_recall_curve(
        items.is_error, items.error_score
    )
    can_flag = thresholds > NO_ERROR_SCORE
    # The last precision and recall are those of flagging nothing.
    return precision[:-1][can_flag], recall[:-1][can_flag], thresholds[can_flag]


def best_threshold(items: Items) -> float:
    """Returns the threshold with the greatest F0.5; of several, the lowest."""
    precision, recall, thresholds = precision_recall(items)
    if not thresholds.size:
        return math.inf
    total = 0.25 * precision + recall
    f_half = 1.25 * precision * recall / np.where(total > 0, total, 1)
    return float(thresholds[f_half.argmax()])


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
            ranks.append(hits[0] if hits else NUM_REPAIRS)
    return ranks


def _report(
    texts: Mapping[str, Sequence[AnnotatedText]],
    detectors: Mapping[str, Mapping[str, Any]],
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
    test = sizes["test"]
    title = (
        f"Wrong words detected: {test['num_errors']:,} of "
        f"{test['num_words']:,} words in {test['num_texts']:,} texts; 95 % "
        "intervals over texts"
    )
    tables = [Table(title, detectors)]
    repairs = None
    if ranks:
        hits = sum(rank < NUM_REPAIRS for rank in ranks)
        repairs = {
            "num_words": len(ranks),
            "first": wilson(ranks.count(0), len(ranks)),
            "any_of_five": wilson(hits, len(ranks)),
        }
        title = "Wrong words whose likeliest repairs are corrections"
        tables.append(Table(title, {"mlm": repairs}))
    results = {**sizes, "detectors": detectors, "repairs": repairs}
    curves = {name: x["curve"][:, ::-1] for name, x in detectors.items()}
    plots = {"precision_recall": Plot(curves, "recall", "precision")}
    return Report(results, tables, plots)
