"""Bias of a discriminator by part of speech.

Each token has the Universal Dependencies tag of its word. For each tag:

    false positives   share of the tokens of the original text that are flagged,
                      P(replaced) > 0.5
    true positives    share of the replaced tokens, replaced as in training,
                      that are flagged; the tag is that of the original word
    generator error   share of the masked tokens for which the generator's
                      likeliest token is not the original
    AUC               of P(replaced), replaced tokens against the others, in
                      the text with tokens replaced: it depends on no threshold

The test of heterogeneity is the chi-squared test of equal rates. It assumes
independent tokens, and leaves out tags with an expected count below five for
either outcome (Cochran). Cramer's V is its effect size, 0 for equal rates, at
most 1.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from electra_tf.analysis import examples, words
from electra_tf.analysis.examples import UPOS
from electra_tf.analysis.replaced_tokens import ReplacedTokens, replace_tokens
from electra_tf.analysis.report import Report, Table, bootstrap, wilson
from electra_tf.analysis.scorer import Scorer, score_texts
from electra_tf.analysis.words import Items
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util.errors import UserError

RATES = ("false_positives", "true_positives", "generator_error")


def run(config: AnalysisConfig) -> Report:
    """Compares how a discriminator flags tokens by part of speech."""
    texts = examples.read_texts(config, "test")
    for text in texts:
        if not text.tags:
            raise UserError(f"{text.path} has no parts of speech.")
    scorer = Scorer.from_config(config)
    if scorer.networks.generator is None:
        raise UserError(f"{config.model} has no generator: set --generator.")
    strings = [text.text for text in texts]
    scores = score_texts(scorer, strings, ["discriminator"])
    replaced = replace_tokens(scorer, strings, config.seed)
    sizes = np.bincount(replaced.text, minlength=len(texts))  # some are cut
    tags, is_flagged = [], []
    for text, one, size in zip(texts, scores, sizes, strict=True):
        word_of_token = words.word_of_tokens(text, one)[:size]
        tags += [text.tags[word] for word in word_of_token]
        is_flagged += [token.is_flagged for token in one.tokens[:size]]
    figures, tests = measure(
        config, np.array(tags), np.array(is_flagged), replaced
    )
    title = (
        f"Tokens flagged in {len(texts):,} texts, by part of speech; 95 % "
        "intervals"
    )
    tables = [
        Table(title, figures),
        Table("Are all tags' rates equal?", tests),
    ]
    results = {
        "num_texts": len(texts),
        "tags": figures,
        "heterogeneity": tests,
    }
    return Report(results, tables)


def measure(
    config: AnalysisConfig,
    tags: np.ndarray,
    is_flagged: np.ndarray,
    replaced: ReplacedTokens,
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, float]]]:
    """Computes the figures of each tag and of all, and tests of the rates."""
    figures, counts = {}, {name: [] for name in RATES}
    for tag in ("all", *(x for x in UPOS if x in tags)):
        chosen = np.full(len(tags), True) if tag == "all" else tags == tag
        logits, is_replaced, is_masked, is_predicted, text = (
            x[chosen] for x in replaced
        )
        flagged, true = is_flagged[chosen], logits[is_replaced] > 0
        outcomes = (flagged, true, ~is_predicted[is_masked])
        rates = [wilson(hits.sum(), len(hits)) for hits in outcomes]
        if tag != "all":
            for name, hits in zip(RATES, outcomes, strict=True):
                counts[name].append((hits.sum(), (~hits).sum()))
        items = Items(logits, is_replaced, text)
        (auc,) = bootstrap(
            functools.partial(words.auc, items), items.num_texts, config
        )
        figures[tag] = {
            "tokens": len(flagged),
            "replaced": len(true),
            **dict(zip(RATES, rates, strict=True)),
            "AUC": auc,
        }
    return figures, {name: heterogeneity(x) for name, x in counts.items()}


def heterogeneity(counts: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Tests if all tags have equal rates of hits and misses."""
    from scipy import stats

    table = np.reshape(counts, (-1, 2))  # [tags, 2]
    shares = table.sum(0) / max(1, table.sum())
    expected = table.sum(1, keepdims=True) * shares
    table = table[(expected >= 5).all(1)]
    if len(table) < 2 or not table.any(0).all():
        return {}
    test = stats.chi2_contingency(table, correction=False)
    return {
        "chi_squared": test.statistic,
        "degrees_of_freedom": test.dof,
        "p_value": test.pvalue,
        "cramers_v": np.sqrt(test.statistic / table.sum()),
    }
