"""Calibration of P(replaced), before and after temperature scaling.

    human errors      words that annotators have marked as wrong; P(replaced) of
                      a word is the maximum over its tokens
    replaced tokens   samples of the model's own generator, as in training, in
                      texts without marked errors

The temperature divides logits. It is fitted on the dev texts; all figures are
of the test texts.

Bin k of 15 of equal width holds n_k of n items, with mean probability p_k and
share of errors y_k. The expected calibration error is the sum of
n_k / n |p_k - y_k|.

Differs: Guo et al. bin the probability of the likelier class, which for rare
errors hides whether P(error) can be believed; here it is P(error) itself.

Source: Guo et al., 2017.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import optimize, special

from electra_tf.analysis import examples
from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.replaced_tokens import replace_tokens
from electra_tf.analysis.report import Plot, Report, Table, bootstrap
from electra_tf.analysis.scorer import Scorer, score_texts
from electra_tf.analysis.scores import Items, error_score, items_of_words
from electra_tf.checkpoint import loading
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util import console, files
from electra_tf.util.errors import UserError

NUM_BINS = 15
MAX_TEMPERATURE = 100.0
"""Temperatures are between this and its inverse."""
HUMAN, REPLACED = "human errors", "replaced tokens"


def run(config: AnalysisConfig) -> Report:
    texts = [examples.read_texts(config, split) for split in ("dev", "test")]
    scorer = Scorer.from_config(config)
    if "discriminator" not in scorer.scores:  # energies are no logits
        raise UserError(f"{config.model} has no P(replaced).")
    dev, test = (_score_items(x, scorer, config.seed) for x in texts)
    common = [kind for kind in dev if kind in test]
    if not common:
        raise UserError(
            "--dev and --test need the same kind of errors; they have "
            f"{', '.join(dev) or 'none'} and {', '.join(test) or 'none'}."
        )
    results, tables, plots = {}, [], {}
    for kind in common:
        temperature, items = fit_temperature(dev[kind]), test[kind]
        num_items, num_errors = len(items.text), int(items.is_error.sum())
        rows = {
            "before": measure(config, items),
            "after": measure(config, items, temperature),
        }
        results[kind] = {
            "temperature": temperature,
            "num_items": num_items,
            "num_errors": num_errors,
            **rows,
        }
        title = (
            f"{kind.capitalize()}: {num_errors:,} of {num_items:,}; "
            f"temperature {temperature:.3f}; 95 % intervals over texts"
        )
        tables.append(Table(title, rows))
        curves = {"calibrated": np.array([[0, 0], [1, 1]])}
        for name, figures in rows.items():
            count, *sums = figures["bins"][:, figures["bins"][0] > 0]
            curves[name] = np.transpose(sums / count)
        plots[f"reliability_{kind.replace(' ', '_')}"] = Plot(
            curves, "mean P(replaced) of a bin", f"share of {kind}"
        )
    if config.write_calibration:
        temperature = results[common[0]]["temperature"]
        # At an end of the range, nothing was fitted.
        if abs(np.log(temperature)) > np.log(MAX_TEMPERATURE) - 1e-3:
            console.warn("The temperature is extreme and is not written.")
        else:
            fitted_on = f"{common[0]} in {', '.join(config.dev)}"
            path = scorer.directory / loading.CALIBRATION_FILE
            fit = loading.Calibration(temperature, fitted_on, scorer.step)
            files.write_json(path, fit._asdict())
            console.say(f"Wrote {path}")
    return Report(results, tables, plots)


def _score_items(
    texts: Sequence[AnnotatedText], scorer: Scorer, seed: int
) -> dict[str, Items]:
    """Returns the items of each kind of errors, with logits as scores."""
    marked = [text for text in texts if text.is_error]
    clean = [text.text for text in texts if not any(text.is_error)]
    kinds = {}
    if marked:
        strings = [text.text for text in marked]
        items = items_of_words(
            marked,
            score_texts(scorer, strings, ["discriminator"]),
            error_score("discriminator"),
        )
        has_tokens = items.error_score >= 0
        p, is_error, text = (x[has_tokens] for x in items)
        # Undoes the division by the temperature stored with the model.
        logits = special.logit(np.clip(p, 1e-12, 1 - 1e-12))
        kinds[HUMAN] = Items(logits * scorer.temperature, is_error, text)
    if clean and scorer.networks.generator is not None:
        replaced = replace_tokens(scorer, clean, seed)
        kinds[REPLACED] = Items(
            replaced.logits.astype(np.float64),
            replaced.is_replaced,
            replaced.text,
        )
    return {k: x for k, x in kinds.items() if 0 < x.is_error.mean() < 1}


def measure(
    config: AnalysisConfig, items: Items, temperature: float = 1.0
) -> dict[str, Any]:
    p = special.expit(items.error_score / temperature)
    number = np.minimum((p * NUM_BINS).astype(int), NUM_BINS - 1)
    flat, shape = items.text * NUM_BINS + number, (items.num_texts, NUM_BINS)
    sums = [
        np.bincount(flat, x, np.prod(shape)).reshape(shape)
        for x in (np.ones_like(p), p, items.is_error)
    ]
    bins = np.stack(sums, 1)  # [texts, 3, K]: sums of 1, P and label

    def calibration_error(texts: np.ndarray) -> float:
        count, confidence, errors = bins[texts].sum(0)
        return np.abs(confidence - errors).sum() / count.sum()

    (error,) = bootstrap(calibration_error, items.num_texts, config)
    return {
        "calibration_error": error,
        "brier": np.mean((p - items.is_error) ** 2),
        "negative_log_likelihood": negative_log_likelihood(items, temperature),
        "bins": bins.sum(0),
    }


def negative_log_likelihood(items: Items, temperature: float) -> float:
    """Computes the mean over the items, nats."""
    logits = items.error_score / temperature
    return np.mean(np.logaddexp(0, logits) - items.is_error * logits)


def fit_temperature(items: Items) -> float:
    """Returns the temperature with the least negative log-likelihood."""
    bound = np.log(MAX_TEMPERATURE)
    fitted = optimize.minimize_scalar(
        lambda x: negative_log_likelihood(items, np.exp(x)),
        bounds=(-bound, bound),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(np.exp(fitted.x))
