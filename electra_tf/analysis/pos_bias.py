"""Bias of a discriminator by part of speech.

Each token has the Universal Dependencies tag of its word. For each tag:

    false positives   share of the tokens of the original text that are flagged,
                      P(replaced) > 0.5
    true positives    share of the replaced tokens, replaced as in training,
                      that are flagged; the tag is that of the original word
    AUC               of P(replaced), replaced tokens against the others, in
                      the text with tokens replaced: it depends on no threshold
    generator error   share of the masked tokens for which the generator's
                      likeliest token is not the original

The test of heterogeneity is the chi-squared test of equal rates. It assumes
independent tokens, and leaves out tags with an expected count below five for
either outcome (Cochran). Cramer's V is its effect size, 0 for equal rates, at
most 1.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from electra_tf.analysis import examples, words
from electra_tf.analysis.examples import UPOS
from electra_tf.analysis.replaced_tokens import ReplacedTokens, replace_tokens
from electra_tf.analysis.report import (
    Report,
    Table,
    bootstrap,
    draw_intervals,
    wilson,
)
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
    strings = [text.text for text in texts]
    replaced = replace_tokens(scorer, strings, config.seed)
    sizes = np.bincount(replaced.text, minlength=len(texts))  # some are cut
    tags, is_flagged = [], []
    for text, scores, size in zip(
        texts,
        score_texts(scorer, strings, ["discriminator"]),
        sizes,
        strict=True,
    ):
        word_of_token = words.word_of_tokens(text, scores)[:size]
        tags += [text.tags[word] for word in word_of_token]
        is_flagged += [token.is_flagged for token in scores.tokens[:size]]
    rates = RATES
    if scorer.networks.generator is None:  # nothing was predicted
        rates = RATES[:2]
        replaced = replaced._replace(is_masked=np.zeros(len(tags), bool))
    figures, counts = measure(
        config, np.array(tags), np.array(is_flagged), replaced
    )
    tests = {name: heterogeneity(counts[name]) for name in rates}
    return _report(figures, tests, len(texts))


def measure(
    config: AnalysisConfig,
    tags: np.ndarray,
    is_flagged: np.ndarray,
    replaced: ReplacedTokens,
) -> tuple[dict[str, dict[str, Any]], dict[str, list[tuple[int, int]]]]:
    """Computes the figures of each tag that occurs, and of all together.

    Returns with them the hits and misses of each rate and tag.
    """
    figures, counts = {}, {name: [] for name in RATES}
    for tag in ("all", *(x for x in UPOS if x in tags)):
        chosen = np.full(len(tags), True) if tag == "all" else tags == tag
        logits, is_replaced, is_masked, is_predicted, text = (
            x[chosen] for x in replaced
        )
        flagged, true = is_flagged[chosen], logits[is_replaced] > 0
        rates = []
        for name, hits in zip(
            RATES, (flagged, true, ~is_predicted[is_masked]), strict=True
        ):
            rates.append(wilson(hits.sum(), len(hits)))
            if tag != "all":
                counts[name].append((hits.sum(), (~hits).sum()))
        items = Items(logits, is_replaced, text)
        (auc,) = bootstrap(
            functools.partial(words.auc, items), items.num_texts, config
        )
        figures[tag] = {
            "tokens": len(flagged),
            "false_positives": rates[0],
            "replaced": len(true),
            "true_positives": rates[1],
            "generator_error": rates[2],
            "auc": auc,
        }
    return figures, counts


def heterogeneity(
    counts: Sequence[tuple[int, int]],
) -> dict[str, float] | None:
    """Tests if all tags have equal rates of hits and misses."""
    from scipy import stats

    table = np.reshape(counts, (-1, 2))  # [tags, 2]
    shares = table.sum(0) / max(1, table.sum())
    expected = table.sum(1, keepdims=True) * shares
    table = table[(expected >= 5).all(1)]
    if len(table) < 2 or not table.any(0).all():
        return None
    test = stats.chi2_contingency(table, correction=False)
    return {
        "chi_squared": test.statistic,
        "degrees_of_freedom": test.dof,
        "p_value": test.pvalue,
        "cramers_v": np.sqrt(test.statistic / table.sum()),
    }


def _report(
    figures: Mapping[str, Mapping[str, Any]],
    tests: Mapping[str, Mapping[str, float] | None],
    num_texts: int,
) -> Report:
    is_sampled = "generator_error" in tests
    source = "the generator's samples" if is_sampled else "random tokens"
    title = (
        f"Tokens flagged in {num_texts:,} texts, by part of speech; replaced "
        f"by {source}; 95 % intervals"
    )
    header = ["tag", *(x.replace("_", " ") for x in figures["all"])]
    rows = [[tag, *x.values()] for tag, x in figures.items()]
    statistics = ("chi-squared", "degrees of freedom", "p", "Cramer's V")
    test_rows = [
        [name.replace("_", " "), *(test.values() if test else ["none"] * 4)]
        for name, test in tests.items()
    ]
    tables = [
        Table(title, header, rows),
        Table("Are all tags' rates equal?", ("rate", *statistics), test_rows),
    ]
    plots = {}
    for name in ("false_positives", "true_positives", "auc"):
        of_tags = {
            tag: x[name]
            for tag, x in figures.items()
            if tag != "all" and not np.isnan(x[name].value)
        }
        of_tags = dict(sorted(of_tags.items(), key=lambda x: -x[1].value))
        plots[name] = functools.partial(
            draw_intervals,
            labels=list(of_tags),
            series={"": list(of_tags.values())},
            title=f"{name.replace('_', ' ')} by part of speech; the line: all",
            line=figures["all"][name].value,
        )
    headline = {
        "false positives": figures["all"]["false_positives"].value,
        "AUC": figures["all"]["auc"].value,
    }
    results = {
        "num_texts": num_texts,
        "replaced_by": "generator" if is_sampled else "random",
        "tags": figures,
        "heterogeneity": tests,
    }
    return Report("pos_bias", headline, results, tables, plots)
