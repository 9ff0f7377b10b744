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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from electra_tf.analysis.detection_metrics import ResampledAuc
from electra_tf.analysis.examples import annotated_text
from electra_tf.analysis.examples.annotated_text import UPOS, AnnotatedText
from electra_tf.analysis.replaced_tokens import ReplacedText, Replacer
from electra_tf.analysis.reporting.reports import Report, Table
from electra_tf.analysis.reporting.statistics import (
    UNKNOWN,
    Interval,
    bootstrap,
    shown,
    wilson,
)
from electra_tf.analysis.scoring import progress, word_scores
from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.analysis.scoring.scores import Items, TextScores
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util import plotting
from electra_tf.util.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MIN_EXPECTED = 5
_SMALLEST_P = 1e-10  # smaller values are not meaningful
_ALL = "all"
_RATES = ("false_positives", "true_positives", "generator_error")
_PLOTS = {
    "false_positives": "false positive rate",
    "true_positives": "true positive rate",
    "auc": "AUC",
}
_HEADER = (
    "tag",
    "tokens",
    "false positives",
    "replaced",
    "true positives",
    "AUC",
    "generator error",
)


class Tokens(NamedTuple):
    """Tokens of tagged texts."""

    tag: np.ndarray
    text: np.ndarray
    is_flagged: np.ndarray
    logit: np.ndarray
    is_replaced: np.ndarray
    is_masked: np.ndarray
    is_predicted: np.ndarray

    def select(self, chosen: np.ndarray) -> "Tokens":
        """Returns some of the tokens."""
        return Tokens(*(values[chosen] for values in self))


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


class Heterogeneity(NamedTuple):
    """Test of equal rates."""

    chi_squared: float
    degrees_of_freedom: int
    p_value: float
    cramers_v: float


def run(config: AnalysisConfig) -> Report:
    """Compares how a discriminator flags tokens by part of speech."""
    texts = annotated_text.read(config, "test")
    for text in texts:
        if not text.tags:
            raise UserError(
                "`test` must name texts with parts of speech, .conllu. "
                f"Received: {text.path}. Leave it out."
            )
    scorer = Scorer.from_config(config)
    word_scores.require_discriminator(config, scorer)
    replacer = Replacer.for_scorer(config, scorer)
    strings = [text.text for text in texts]
    scores = progress.score_texts(scorer, strings, ["discriminator"])
    replaced = replacer.replace(strings)
    tokens = join(texts, scores, replaced)
    if not replacer.has_generator:  # nothing was predicted where it is masked
        tokens = tokens._replace(is_masked=np.zeros_like(tokens.is_masked))
    figures = measure(config, tokens)
    return _report(figures, len(texts), replacer.has_generator)


def join(
    texts: Sequence[AnnotatedText],
    scores: Iterable[TextScores],
    replaced: Sequence[ReplacedText],
) -> Tokens:
    """Joins tags, scores and replacements of the tokens of texts."""
    rows = zip(texts, scores, replaced, strict=True)
    parts = [_join(i, *row) for i, row in enumerate(rows)]
    return Tokens(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def _join(
    number: int, text: AnnotatedText, scores: TextScores, replaced: ReplacedText
) -> Tokens:
    size = len(replaced.logits)
    words = word_scores.word_of_tokens(text, scores)[:size]
    tags = [UPOS.index(text.tags[word]) for word in words]
    flagged = [token.is_flagged for token in scores.tokens]
    return Tokens(
        np.array(tags, np.int64),
        np.full(size, number),
        np.array(flagged[:size], bool),
        *replaced,
    )


def measure(config: AnalysisConfig, tokens: Tokens) -> dict[str, TagFigures]:
    """Computes the figures of each tag that occurs, and of all together."""
    found = {_ALL: _figures(config, tokens)}
    for number, tag in enumerate(UPOS):
        chosen = tokens.select(tokens.tag == number)
        if chosen.tag.size:
            found[tag] = _figures(config, chosen)
    return found


def _figures(config: AnalysisConfig, tokens: Tokens) -> TagFigures:
    replaced = tokens.select(tokens.is_replaced)
    masked = tokens.select(tokens.is_masked)
    auc = UNKNOWN
    if 0 < replaced.tag.size < tokens.tag.size:
        items = Items(tokens.logit, tokens.is_replaced, tokens.text)
        auc = bootstrap(ResampledAuc(items), items.num_texts, config)
    return TagFigures(
        _rate(tokens.is_flagged),
        _rate(replaced.logit > 0),
        _rate(~masked.is_predicted),
        auc,
    )


def _rate(is_hit: np.ndarray) -> Rate:
    hits, trials = int(is_hit.sum()), len(is_hit)
    return Rate(hits, trials, *wilson(hits, trials))


def heterogeneity(rates: Sequence[tuple[int, int]]) -> Heterogeneity | None:
    """Tests whether all rates are equal."""
    counts = np.array([(hits, trials - hits) for hits, trials in rates])
    counts = counts.reshape(-1, 2)  # [tags, 2]
    shares = counts.sum(0) / max(1, counts.sum())
    expected = counts.sum(1, keepdims=True) * shares
    counts = counts[(expected >= _MIN_EXPECTED).all(1)]
    if len(counts) < 2 or not counts.any(0).all():
        return None
    from scipy import stats

    found = stats.chi2_contingency(counts, correction=False)
    effect = np.sqrt(found.statistic / counts.sum())
    return Heterogeneity(
        float(found.statistic), int(found.dof), float(found.pvalue), effect
    )


def _report(
    figures: Mapping[str, TagFigures], num_texts: int, has_generator: bool
) -> Report:
    by_tag = {tag: x for tag, x in figures.items() if tag != _ALL}
    names = _RATES if has_generator else _RATES[:2]
    tests = {
        name: heterogeneity([getattr(x, name)[:2] for x in by_tag.values()])
        for name in names
    }
    return Report(
        what="pos_bias",
        headline={
            "false positives": figures[_ALL].false_positives.value,
            "AUC": figures[_ALL].auc.value,
        },
        results={
            "num_texts": num_texts,
            "replaced_by": "generator" if has_generator else "random",
            "tags": figures,
            "heterogeneity": tests,
        },
        tables=[
            _table_of_tags(figures, num_texts, has_generator),
            _table_of_tests(tests),
        ],
        plots={
            name: functools.partial(
                _draw,
                label=label,
                intervals={k: getattr(x, name) for k, x in figures.items()},
            )
            for name, label in _PLOTS.items()
        },
    )


def _table_of_tags(
    figures: Mapping[str, TagFigures], num_texts: int, has_generator: bool
) -> Table:
    rows = [
        [
            tag,
            f"{x.false_positives.trials:,}",
            shown(x.false_positives),
            f"{x.true_positives.trials:,}",
            *map(shown, (x.true_positives, x.auc, x.generator_error)),
        ]
        for tag, x in figures.items()
    ]
    source = "the generator's samples" if has_generator else "random tokens"
    title = (
        f"Tokens flagged in {num_texts:,} texts, by part of speech; replaced "
        f"by {source}; 95 % intervals"
    )
    return Table(title, _HEADER, rows)


def _table_of_tests(tests: Mapping[str, Heterogeneity | None]) -> Table:
    rows = [
        [name.replace("_", " "), *_format_test(test)]
        for name, test in tests.items()
    ]
    header = ("rate", "chi-squared", "degrees of freedom", "p", "Cramer's V")
    return Table("Are the rates of all tags equal?", header, rows)


def _format_test(test: Heterogeneity | None) -> list[str]:
    if test is None:
        return ["none"] * len(Heterogeneity._fields)
    p = test.p_value
    return [
        f"{test.chi_squared:,.1f}",
        str(test.degrees_of_freedom),
        f"{p:.2g}" if p >= _SMALLEST_P else f"< {_SMALLEST_P:g}",
        f"{test.cramers_v:.3f}",
    ]


def _draw(
    axes: "Axes", label: str, intervals: Mapping[str, Rate | Interval]
) -> None:
    """Draws a figure for each tag, and a line for all together."""
    tags = {
        tag: x[-3:]
        for tag, x in intervals.items()
        if tag != _ALL and not np.isnan(x.value)
    }
    order = sorted(tags, key=lambda tag: -tags[tag][0])
    plotting.draw_intervals(axes, order, {"": [tags[tag] for tag in order]})
    plotting.set_style(axes, "By part of speech; the line: all", label)
    axes.axvline(intervals[_ALL].value, color=plotting.GREY, zorder=0)
