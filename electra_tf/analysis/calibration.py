"""Calibration of P(replaced), before and after temperature scaling.

It is measured on two kinds of errors:

    replaced tokens   samples of the model's own generator, as in training, in
                      texts without marked errors; items are tokens
    human errors      words that annotators have marked as wrong; items are
                      words, P of a word is the maximum over its tokens

The temperature is fitted on the dev texts; all figures are of the test texts.
It divides logits, which makes a model more or less confident, but cannot
correct which words it takes for wrong, or how many.

Bin k of 15 of equal width holds n_k of n items, with mean probability p_k and
share of errors y_k; y_bar is the share of errors of all.

    expected calibration error = sum_k n_k / n |p_k - y_k|
    reliability                = sum_k n_k / n (p_k - y_k)^2
    resolution                 = sum_k n_k / n (y_k - y_bar)^2

Differs: Guo et al. bin the probability of the likelier class, which for rare
errors hides whether P(error) can be believed; here it is P(error) itself.

Source: Guo et al., 2017 (expected calibration error, temperature); Murphy,
1973 (parts of the Brier score).
"""

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from electra_tf.analysis import examples, words
from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.replaced_tokens import replace_tokens
from electra_tf.analysis.report import (
    GREY,
    Interval,
    Report,
    Table,
    bootstrap,
    shown,
)
from electra_tf.analysis.scorer import Scorer, score_texts
from electra_tf.analysis.words import Items
from electra_tf.checkpoint import calibration
from electra_tf.checkpoint.calibration import Calibration
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util import console
from electra_tf.util.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUM_BINS = 15
MAX_TEMPERATURE = 100.0
"""Temperatures are between this and its inverse."""

_KINDS = _HUMAN, _REPLACED = "human errors", "replaced tokens"
_SMALLEST = 1e-12  # distance of a probability from 0 and 1


class Metrics(NamedTuple):
    """Measures of calibration; bins [3, K] of sums over the items."""

    calibration_error: Interval
    calibration_error_of_flagged: Interval
    brier: float
    reliability: float
    resolution: float
    negative_log_likelihood: float
    bins: np.ndarray


class Findings(NamedTuple):
    """Calibration on one kind of errors."""

    temperature: float
    num_items: int
    num_errors: int
    num_flagged: int
    before: Metrics
    after: Metrics


def run(config: AnalysisConfig) -> Report:
    """Measures the calibration of a discriminator, and fits a temperature."""
    texts = [examples.read_texts(config, split) for split in ("dev", "test")]
    scorer = Scorer.from_config(config)
    if "discriminator" not in scorer.scores:
        raise UserError(f"{config.model} has no P(replaced).")
    dev, test = (_score_items(x, scorer, config.seed) for x in texts)
    common = [kind for kind in _KINDS if kind in dev and kind in test]
    if not common:
        raise UserError(
            "--dev and --test must have the same kind of errors; they have "
            f"{', '.join(dev) or 'none'} and {', '.join(test) or 'none'}."
        )
    found = {}
    for kind in common:
        temperature, items = fit_temperature(dev[kind]), test[kind]
        found[kind] = Findings(
            temperature,
            len(items.error_score),
            int(items.is_error.sum()),
            int((items.error_score > 0).sum()),
            measure(config, items),
            measure(config, items, temperature),
        )
    if config.write_calibration:
        kind, first = common[0], found[common[0]]
        # At an end of the range, nothing was fitted.
        size = abs(np.log(first.temperature))
        if size > np.log(MAX_TEMPERATURE) - 1e-3:
            console.warn("The temperature is extreme and is not written.")
        else:
            fitted_on = f"{kind} in {', '.join(config.dev)}"
            written = Calibration(first.temperature, fitted_on, scorer.step)
            calibration.write(scorer.directory, written)
            console.say(f"Wrote {scorer.directory / calibration.FILE_NAME}")
    return _report(found)


def _score_items(
    texts: Sequence[AnnotatedText], scorer: Scorer, seed: int
) -> dict[str, Items]:
    """Returns the items of each kind of errors, with logits as scores."""
    marked = [text for text in texts if text.is_error]
    clean = [text.text for text in texts if not any(text.is_error)]
    found = {}
    if marked:
        strings = [text.text for text in marked]
        items = words.items_of_words(
            marked,
            score_texts(scorer, strings, ["discriminator"]),
            words.error_score("discriminator"),
        )
        items = items.select(items.error_score >= 0)  # words that have tokens
        p = np.clip(items.error_score, _SMALLEST, 1 - _SMALLEST)
        # Undoes the division by the temperature stored with the model.
        logits = (np.log(p) - np.log1p(-p)) * scorer.temperature
        found[_HUMAN] = items._replace(error_score=logits)
    if clean and scorer.networks.generator is not None:
        replaced = replace_tokens(scorer, clean, seed)
        found[_REPLACED] = Items(
            np.concatenate([x.logits for x in replaced]).astype(np.float64),
            np.concatenate([x.is_replaced for x in replaced]),
            np.repeat(
                np.arange(len(replaced)), [len(x.logits) for x in replaced]
            ),
        )
    return {
        kind: items
        for kind, items in found.items()
        if 0 < items.is_error.sum() < items.is_error.size
    }


def measure(
    config: AnalysisConfig, items: Items, temperature: float = 1.0
) -> Metrics:
    """Computes the measures of calibration at a temperature."""
    from sklearn.metrics import brier_score_loss, log_loss

    p = calibration.probability(items.error_score / temperature)
    by_text = bins_by_text(items, p)
    flagged = bins_by_text(items, p, items.error_score > 0)
    intervals = bootstrap(
        lambda texts: [
            calibration_error(x[:, texts].sum(1)) for x in (by_text, flagged)
        ],
        items.num_texts,
        config,
    )
    bins = by_text.sum(1)
    used = bins[:, bins[0] > 0]
    share, p_k, y_k = used[0] / used[0].sum(), *(used[1:] / used[0])
    return Metrics(
        *intervals,
        brier=float(brier_score_loss(items.is_error, p)),
        reliability=float(share @ (p_k - y_k) ** 2),
        resolution=float(share @ (y_k - items.is_error.mean()) ** 2),
        negative_log_likelihood=float(log_loss(items.is_error, p)),
        bins=bins,
    )


def bins_by_text(
    items: Items, probability: np.ndarray, chosen: np.ndarray | bool = True
) -> np.ndarray:
    """Sums 1, P and label over the items of each bin, [3, texts, K]."""
    number = np.minimum((probability * NUM_BINS).astype(int), NUM_BINS - 1)
    flat, size = items.text * NUM_BINS + number, items.num_texts * NUM_BINS
    values = (np.ones_like(probability), probability, items.is_error)
    sums = [np.bincount(flat, x * chosen, size) for x in values]
    return np.reshape(sums, (3, items.num_texts, NUM_BINS))


def calibration_error(bins: np.ndarray) -> float:
    """Computes the expected calibration error of [3, K]; NaN without items."""
    count, confidence, errors = bins
    total = count.sum()
    return np.abs(confidence - errors).sum() / total if total else np.nan


def fit_temperature(items: Items) -> float:
    """Returns the temperature with the least negative log-likelihood."""
    from scipy import optimize

    def loss(log_temperature: float) -> float:
        logits = items.error_score / np.exp(log_temperature)
        return np.mean(np.logaddexp(0, logits) - items.is_error * logits)

    bound = np.log(MAX_TEMPERATURE)
    found = optimize.minimize_scalar(
        loss, bounds=(-bound, bound), method="bounded", options={"xatol": 1e-6}
    )
    return float(np.exp(found.x))


def _report(found: Mapping[str, Findings]) -> Report:
    kind, main = next(iter(found.items()))
    headline = {
        f"calibration error, {kind}": main.before.calibration_error.value,
        f"temperature, {kind}": main.temperature,
    }
    header = (
        *("probability", "calibration error", "of flagged", "Brier score"),
        *("reliability", "resolution", "-log P, nats"),
    )
    tables, plots = [], {}
    for kind, x in found.items():
        after = f"temperature {x.temperature:.3f}"
        title = (
            f"{kind.capitalize()}: {x.num_errors:,} of {x.num_items:,}; "
            f"{x.num_flagged:,} flagged at P > 0.5; 95 % intervals over texts"
        )
        rows = [
            [name, shown(metrics[0]), shown(metrics[1]), *metrics[2:6]]
            for name, metrics in (("as trained", x.before), (after, x.after))
        ]
        tables.append(Table(title, header, rows))
        plots[f"reliability_{kind.replace(' ', '_')}"] = functools.partial(
            _draw, kind=kind, found=x
        )
    return Report("calibration", headline, found, tables, plots)


def _draw(axes: "Axes", kind: str, found: Findings) -> None:
    axes.plot([0, 1], [0, 1], "--", color=GREY, label="calibrated")
    after = f"temperature {found.temperature:.2f}"
    for x, label in ((found.before, "as trained"), (found.after, after)):
        count, confidence, errors = x.bins[:, x.bins[0] > 0]
        axes.plot(confidence / count, errors / count, "o-", label=label)
    axes.set(xlabel="mean P(replaced) of a bin", ylabel=f"share of {kind}")
    axes.legend(frameon=False)
