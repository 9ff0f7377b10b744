"""Calibration of P(replaced), before and after temperature scaling.

It is measured on two kinds of errors:

    replaced tokens   samples of the model's own generator, as in training, in
                      texts without marked errors; items are tokens
    human errors      words that annotators have marked as wrong; items are
                      words, P of a word is the maximum over its tokens

The temperature is fitted on the dev texts; all figures are of the test texts.
It divides logits, which makes a model more or less confident, but cannot
correct which words it takes for wrong, or how many.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from electra_tf.analysis import calibration_metrics
from electra_tf.analysis.calibration_metrics import Bins, Brier
from electra_tf.analysis.examples import annotated_text
from electra_tf.analysis.examples.annotated_text import AnnotatedText
from electra_tf.analysis.replaced_tokens import Replacer
from electra_tf.analysis.reporting.reports import Report, Table
from electra_tf.analysis.reporting.statistics import Interval, bootstrap, shown
from electra_tf.analysis.scoring import progress, word_scores
from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.analysis.scoring.scores import Items
from electra_tf.checkpoint import calibration
from electra_tf.checkpoint.calibration import Calibration
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util import console
from electra_tf.util.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS = _HUMAN, _REPLACED = "human errors", "replaced tokens"
_HEADER = (
    "probability",
    "calibration error",
    "of flagged",
    "Brier score",
    "reliability",
    "resolution",
    "uncertainty",
    "remainder",
    "-log P, nats",
)


class CalibrationMetrics(NamedTuple):
    """Measures of calibration."""

    calibration_error: Interval
    calibration_error_of_flagged: Interval
    num_flagged: int
    brier: Brier
    negative_log_likelihood: float
    bins: Bins


class CalibrationFindings(NamedTuple):
    """Calibration on one kind of errors."""

    temperature: float
    num_items: int
    num_errors: int
    before: CalibrationMetrics
    after: CalibrationMetrics


def run(config: AnalysisConfig) -> Report:
    """Measures the calibration of a discriminator, and fits a temperature."""
    texts = {s: annotated_text.read(config, s) for s in ("dev", "test")}
    scorer = Scorer.from_config(config)
    word_scores.require_discriminator(config, scorer)
    replacer = Replacer.for_scorer(config, scorer)
    dev, test = (
        _score_items(found, scorer, replacer) for found in texts.values()
    )
    found = {
        kind: _calibrate(config, dev[kind], test[kind])
        for kind in _common_kinds(dev, test)
    }
    if config.write_calibration:
        _write(config, scorer, found)
    return _report(found)


def _common_kinds(dev: Collection[str], test: Collection[str]) -> list[str]:
    """Returns the kinds of errors that both splits have."""
    common = [kind for kind in _KINDS if kind in dev and kind in test]
    if not common:
        raise UserError(
            "`dev` and `test` must both hold texts with marked errors, or both "
            "hold other texts, which need a model with a generator. "
            f"Received: {', '.join(dev) or 'neither'} in dev, "
            f"{', '.join(test) or 'neither'} in test. Give more texts."
        )
    for kind in {*dev, *test}.difference(common):
        console.warn(f"Only one split has {kind}; they are skipped.")
    return common


def _score_items(
    texts: Sequence[AnnotatedText], scorer: Scorer, replacer: Replacer
) -> dict[str, Items]:
    """Returns the items for each kind of errors, with logits of P(replaced)."""
    marked = [text for text in texts if text.is_error]
    clean = [text.text for text in texts if not any(text.is_error)]
    items_by_kind = {}
    if marked:
        items_by_kind[_HUMAN] = _score_words(marked, scorer)
    if clean and replacer.has_generator:
        items_by_kind[_REPLACED] = _score_tokens(clean, replacer)
    return {
        kind: items
        for kind, items in items_by_kind.items()
        if 0 < items.is_error.sum() < items.is_error.size
    }


def _score_words(texts: Sequence[AnnotatedText], scorer: Scorer) -> Items:
    strings = [text.text for text in texts]
    scores = progress.score_texts(scorer, strings, ["discriminator"])
    items = word_scores.items_of_words(
        texts, scores, word_scores.error_score("discriminator")
    )
    items = items.select(items.error_score >= 0)  # words that have tokens
    # Undoes the division by the temperature stored with the model, if any.
    logits = calibration_metrics.logit(items.error_score) * scorer.temperature
    return items._replace(error_score=logits)


def _score_tokens(texts: Sequence[str], replacer: Replacer) -> Items:
    found = replacer.replace(texts)
    logits, is_replaced, *_ = zip(*found, strict=True)
    return Items(
        np.concatenate(logits).astype(np.float64),
        np.concatenate(is_replaced),
        np.repeat(np.arange(len(found)), list(map(len, logits))),
    )


def _calibrate(
    config: AnalysisConfig, dev: Items, test: Items
) -> CalibrationFindings:
    """Fits a temperature on dev, and measures calibration on test."""
    temperature = calibration_metrics.fit_temperature(dev)
    return CalibrationFindings(
        temperature,
        len(test.error_score),
        int(test.is_error.sum()),
        measure(config, test),
        measure(config, test, temperature),
    )


def measure(
    config: AnalysisConfig, items: Items, temperature: float = 1.0
) -> CalibrationMetrics:
    """Computes the measures of calibration at a temperature."""
    logits = items.error_score / temperature
    probability = calibration.probability(logits)
    by_text = calibration_metrics.bins_by_text(items, probability)
    is_flagged = items.error_score > 0
    flagged = calibration_metrics.bins_by_text(items, probability, is_flagged)
    found = Bins(*by_text.sum(1))
    return CalibrationMetrics(
        _calibration_error(config, by_text),
        _calibration_error(config, flagged),
        int(is_flagged.sum()),
        calibration_metrics.brier(found),
        calibration_metrics.negative_log_likelihood(items, temperature),
        found,
    )


def _calibration_error(config: AnalysisConfig, by_text: np.ndarray) -> Interval:
    """Returns the expected calibration error of bins, with its interval."""

    def error(texts: np.ndarray) -> float:
        return calibration_metrics.calibration_error(
            Bins(*by_text[:, texts].sum(1))
        )

    return bootstrap(error, by_text.shape[1], config)


def _write(
    config: AnalysisConfig,
    scorer: Scorer,
    found: Mapping[str, CalibrationFindings],
) -> None:
    """Writes the temperature beside the model, if it is of any use."""
    kind, findings = next(iter(found.items()))  # human errors if there are any
    if calibration_metrics.is_extreme(findings.temperature):
        console.say("The temperature is not written.")
        return
    fitted_on = f"{kind} in {', '.join(config.dev)}"
    written = Calibration(findings.temperature, fitted_on, scorer.step)
    calibration.write(scorer.directory, written)
    console.say(
        f"Temperature {findings.temperature:.3f}, of {kind}: "
        f"{scorer.directory / calibration.FILE_NAME}"
    )


def _report(found: Mapping[str, CalibrationFindings]) -> Report:
    kind, main = next(iter(found.items()))
    return Report(
        what="calibration",
        headline={
            f"calibration error, {kind}": main.before.calibration_error.value,
            f"temperature, {kind}": main.temperature,
        },
        results=found,
        tables=[_table(kind, calibrated) for kind, calibrated in found.items()],
        plots={
            f"reliability_{kind.replace(' ', '_')}": _plot(kind, calibrated)
            for kind, calibrated in found.items()
        },
    )


def _table(kind: str, found: CalibrationFindings) -> Table:
    rows = [
        [
            name,
            shown(x.calibration_error),
            shown(x.calibration_error_of_flagged),
            *x.brier,
            x.negative_log_likelihood,
        ]
        for name, x in (
            ("as trained", found.before),
            (f"temperature {found.temperature:.3f}", found.after),
        )
    ]
    title = (
        f"{kind.capitalize()}: {found.num_errors:,} of {found.num_items:,}; "
        f"{found.before.num_flagged:,} flagged at P > 0.5; 95 % intervals "
        "over texts"
    )
    return Table(title, _HEADER, rows)


def _plot(kind: str, found: CalibrationFindings) -> Callable[["Axes"], None]:
    def draw(axes: "Axes") -> None:
        axes.plot([0, 1], [0, 1], "--", color="#b9c2cc", label="calibrated")
        after = f"temperature {found.temperature:.2f}"
        _draw_bins(axes, found.before.bins, "as trained")
        _draw_bins(axes, found.after.bins, after)
        axes.set(
            xlabel="mean P(replaced) of a bin",
            ylabel=f"share of {kind}",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        axes.legend(frameon=False, loc="upper left")

    return draw


def _draw_bins(axes: "Axes", bins: Bins, label: str) -> None:
    """Draws a line through the bins; dots grow with the logarithm of counts."""
    used = bins.count > 0
    count, confidence, errors, _ = (x[used] for x in bins)
    (line,) = axes.plot(confidence / count, errors / count, label=label)
    sizes = 8 * (1 + np.log10(count))
    axes.scatter(
        confidence / count, errors / count, sizes, color=line.get_color()
    )
