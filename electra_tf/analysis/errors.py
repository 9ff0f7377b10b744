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
"""

import math
from typing import Any

import numpy as np

from electra_tf.analysis import examples
from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.report import Plot, Report, Table, bootstrap
from electra_tf.analysis.scorer import Scorer, score_texts
from electra_tf.analysis.scores import Items, auc, error_score, items_of_words
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util.errors import UserError

FIGURES = ("precision", "recall", "F0.5", "AUC")


def run(config: AnalysisConfig) -> Report:
    from sklearn.metrics import precision_recall_curve

    texts = {split: read(config, split) for split in ("dev", "test")}
    scorer = Scorer.from_config(config)
    ids = scorer.networks.vocabulary.ids
    names = config.scores or scorer.scores
    error_scores = {name: error_score(name) for name in names}
    error_scores |= {
        "unigram": lambda token: math.log(1 + ids[token.token]),
        "all words": lambda token: 0.0,
    }
    sizes, items = {}, {}
    for split, some in texts.items():
        scores = [*score_texts(scorer, [text.text for text in some], names)]
        items[split] = {
            name: items_of_words(some, scores, of_token)
            for name, of_token in error_scores.items()
        }
        sizes[split] = {
            "num_texts": len(some),
            "num_words": sum(len(text.words) for text in some),
            "num_errors": sum(sum(text.is_error) for text in some),
        }
    detectors, curves = {}, {}
    for name, test in items["test"].items():
        detectors[name] = measure(config, items["dev"][name], test)
        precision, recall, _ = precision_recall_curve(
            test.is_error, test.error_score
        )
        curves[name] = np.stack([recall, precision], 1)
    size = sizes["test"]
    title = (
        f"Wrong words detected: {size['num_errors']:,} of "
        f"{size['num_words']:,} words in {size['num_texts']:,} texts; 95 % "
        "intervals over texts"
    )
    return Report(
        {**sizes, "detectors": detectors},
        [Table(title, detectors)],
        {"precision_recall": Plot(curves, "recall", "precision")},
    )


def read(config: AnalysisConfig, split: str) -> list[AnnotatedText]:
    """Reads the texts of a split, whose wrong words are marked."""
    texts = examples.read_texts(config, split)
    for text in texts:
        if not text.is_error:
            raise UserError(f"{text.path} in --{split} marks no wrong words.")
    if len({wrong for text in texts for wrong in text.is_error}) < 2:
        raise UserError(f"--{split} needs correct and wrong words.")
    return texts


def measure(config: AnalysisConfig, dev: Items, test: Items) -> dict[str, Any]:
    """Tunes the threshold of a detector on dev, and measures it on test."""
    threshold = best_threshold(dev)
    is_flagged = test.error_score >= threshold
    kinds = (test.is_error & is_flagged, is_flagged, test.is_error)
    counts = np.array([np.bincount(test.text, x) for x in kinds])  # [3, texts]

    def statistic(texts: np.ndarray) -> list[float]:
        hits, num_flagged, num_errors = counts[:, texts].sum(1).tolist()
        precision = hits / num_flagged if num_flagged else 0.0
        recall = f_half = math.nan
        if num_errors:
            recall = hits / num_errors
            f_half = 1.25 * hits / (0.25 * num_errors + num_flagged)
        return [precision, recall, f_half, auc(test, texts)]

    figures = bootstrap(statistic, test.num_texts, config)
    return {"threshold": threshold, **dict(zip(FIGURES, figures, strict=True))}


def best_threshold(items: Items) -> float:
    """Returns the threshold with the greatest F0.5; of several, the lowest."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, thresholds = precision_recall_curve(
        items.is_error, items.error_score
    )
    total = 0.25 * precision + recall
    f_half = 1.25 * precision * recall / np.where(total > 0, total, 1)
    return float(thresholds[f_half[:-1].argmax()])  # the last flags nothing
