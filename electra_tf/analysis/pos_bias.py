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
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.analysis import examples, words
from electra_tf.analysis.examples import UPOS, AnnotatedText
from electra_tf.analysis.replaced_tokens import ReplacedText, replace_tokens
from electra_tf.analysis.report import (
    UNKNOWN,
    Interval,
    Report,
    Table,
    bootstrap,
    draw_intervals,
    shown,
    wilson,
)
from electra_tf.analysis.scorer import Scorer, score_texts
from electra_tf.analysis.scores import TextScores
from electra_tf.analysis.words import Items
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util.errors import UserError

_MIN_EXPECTED = 5
_ALL = "all"


class Tokens(NamedTuple):
    """Tokens of tagged texts; each [n]."""

    tag: np.ndarray
    text: np.ndarray
    is_flagged: np.ndarray
    logit: np.ndarray
    is_replaced: np.ndarray
    is_masked: np.ndarray
    is_predicted: np.ndarray


class Rate(NamedTuple):
    """A share and its 95 % interval."""

    hits: int
    trials: int
    value: float
    low: float
    high: float


class TagFigures(NamedTuple):
    """Figures of the tokens of a tag."""

    false_positives: Rate
    true_positives: Rate
    generator_error: Rate
    auc: Interval


def run(config: AnalysisConfig) -> Report:
    """Compares how a discriminator flags tokens by part of speech."""
    texts = examples.read_texts(config, "test")
    for text in texts:
        if not text.tags:
            raise UserError(f"{text.path} has no parts of speech.")
    scorer = Scorer.from_config(config)
    strings = [text.text for text in texts]
    scores = list(score_texts(scorer, strings, ["discriminator"]))
    tokens = join(texts, scores, replace_tokens(scorer, strings, config.seed))
    has_generator = scorer.networks.generator is not None
    if not has_generator:  # nothing was predicted where it is masked
        tokens = tokens._replace(is_masked=np.zeros_like(tokens.is_masked))
    return _report(measure(config, tokens), len(texts), has_generator)


def join(
    texts: Sequence[AnnotatedText],
    scores: Iterable[TextScores],
    replaced: Sequence[ReplacedText],
) -> Tokens:
    """Joins tags, scores and replacements of the tokens of texts."""
    parts = []
    rows = zip(texts, scores, replaced, strict=True)
    for number, (text, one, changed) in enumerate(rows):
        size = len(changed.logits)  # shorter if the text is cut
        word_of_token = words.word_of_tokens(text, one)[:size]
        tags = [UPOS.index(text.tags[word]) for word in word_of_token]
        flagged = [token.is_flagged for token in one.tokens[:size]]
        parts.append(
            (
                np.array(tags, np.int64),
                np.full(size, number),
                np.array(flagged, bool),
                *changed,
            )
        )
    return Tokens(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def measure(config: AnalysisConfig, tokens: Tokens) -> dict[str, TagFigures]:
    """Computes the figures of each tag that occurs, and of all together."""
    parts = {_ALL: tokens}
    for number, tag in enumerate(UPOS):
        chosen = tokens.tag == number
        if chosen.any():
            parts[tag] = Tokens(*(x[chosen] for x in tokens))
    return {tag: _figures(config, part) for tag, part in parts.items()}


def _figures(config: AnalysisConfig, tokens: Tokens) -> TagFigures:
    auc = UNKNOWN
    if 0 < tokens.is_replaced.sum() < tokens.tag.size:
        items = Items(tokens.logit, tokens.is_replaced, tokens.text)
        (auc,) = bootstrap(
            functools.partial(words.auc, items), items.num_texts, config
        )
    return TagFigures(
        _rate(tokens.is_flagged),
        _rate(tokens.logit[tokens.is_replaced] > 0),
        _rate(~tokens.is_predicted[tokens.is_masked]),
        auc,
    )


def _rate(is_hit: np.ndarray) -> Rate:
    hits, trials = int(is_hit.sum()), len(is_hit)
    return Rate(hits, trials, *wilson(hits, trials))


def heterogeneity(
    rates: Sequence[tuple[int, int]],
) -> dict[str, float] | None:
    """Tests whether all rates, of hits and trials, are equal."""
    from scipy import stats

    counts = np.array([(hits, trials - hits) for hits, trials in rates])
    counts = counts.reshape(-1, 2)  # [tags, 2]
    shares = counts.sum(0) / max(1, counts.sum())
    expected = counts.sum(1, keepdims=True) * shares
    counts = counts[(expected >= _MIN_EXPECTED).all(1)]
    if len(counts) < 2 or not counts.any(0).all():
        return None
    found = stats.chi2_contingency(counts, correction=False)
    return {
        "chi_squared": float(found.statistic),
        "degrees_of_freedom": int(found.dof),
        "p_value": float(found.pvalue),
        "cramers_v": float(np.sqrt(found.statistic / counts.sum())),
    }


def _report(
    figures: Mapping[str, TagFigures], num_texts: int, has_generator: bool
) -> Report:
    rates = ["false_positives", "true_positives"]
    rates += ["generator_error"] * has_generator
    tests = {
        name: heterogeneity(
            [getattr(x, name)[:2] for tag, x in figures.items() if tag != _ALL]
        )
        for name in rates
    }
    source = "the generator's samples" if has_generator else "random tokens"
    title = (
        f"Tokens flagged in {num_texts:,} texts, by part of speech; replaced "
        f"by {source}; 95 % intervals"
    )
    header = (
        *("tag", "tokens", "false positives", "replaced", "true positives"),
        *("generator error", "AUC"),
    )
    rows = [
        [
            tag,
            x.false_positives.trials,
            shown(Interval(*x.false_positives[2:])),
            x.true_positives.trials,
            shown(Interval(*x.true_positives[2:])),
            shown(Interval(*x.generator_error[2:])),
            shown(x.auc),
        ]
        for tag, x in figures.items()
    ]
    statistics = ("chi-squared", "degrees of freedom", "p", "Cramer's V")
    test_rows = [
        [name.replace("_", " "), *(test.values() if test else ["none"] * 4)]
        for name, test in tests.items()
    ]
    headline = {
        "false positives": figures[_ALL].false_positives.value,
        "AUC": figures[_ALL].auc.value,
    }
    results = {
        "num_texts": num_texts,
        "replaced_by": "generator" if has_generator else "random",
        "tags": figures,
        "heterogeneity": tests,
    }
    tables = [
        Table(title, header, rows),
        Table("Are all tags' rates equal?", ("rate", *statistics), test_rows),
    ]
    plots = {
        name: functools.partial(_draw, figures=figures, name=name)
        for name in ("false_positives", "true_positives", "auc")
    }
    return Report("pos_bias", headline, results, tables, plots)


def _draw(axes: object, figures: Mapping[str, TagFigures], name: str) -> None:
    """Draws a figure for each tag, and a line for all together."""
    tags = {tag: Interval(*getattr(x, name)[-3:]) for tag, x in figures.items()}
    whole = tags.pop(_ALL).value
    known = {tag: x for tag, x in tags.items() if not np.isnan(x.value)}
    order = sorted(known, key=lambda tag: -known[tag].value)
    draw_intervals(
        axes,
        order,
        {"": [known[tag] for tag in order]},
        title=f"{name.replace('_', ' ')} by part of speech; the line: all",
        line=whole,
    )
