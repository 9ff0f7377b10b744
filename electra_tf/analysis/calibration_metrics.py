"""Metrics of calibration, and temperature scaling.

Each of n items has a probability p of being an error, and a label y, 1 if it is
one. Bin k, of equal width, holds n_k items with means p_k and y_k; y_bar is the
mean of all labels.

    expected calibration error = sum_k n_k / n |p_k - y_k|
    Brier score                = mean (p - y)^2
                               = reliability - resolution + uncertainty
                                 + remainder
    reliability                = sum_k n_k / n (p_k - y_k)^2
    resolution                 = sum_k n_k / n (y_k - y_bar)^2
    uncertainty                = y_bar (1 - y_bar)

The remainder comes from the variation of p within bins; it is 0 if there is
none. The temperature T divides the logits of p; the negative log-likelihood is
convex in 1 / T.

Differs: Guo et al. bin the probability of the likelier class, which for rare
errors hides whether P(error) can be believed; here it is P(error) itself.

Source: Guo et al., 2017 (expected calibration error, temperature); Murphy,
1973, and Stephenson et al., 2008 (parts of the Brier score).
"""

from typing import NamedTuple

import numpy as np

from electra_tf.analysis.scoring.scores import Items
from electra_tf.util import console

NUM_BINS = 15
MAX_TEMPERATURE = 100.0
"""Temperatures are between this and its inverse."""

_SMALLEST = 1e-12  # distance of a probability from 0 and 1


class Bins(NamedTuple):
    """Sums over the items in K bins of equal width; each float64 [K]."""

    count: np.ndarray
    confidence: np.ndarray
    errors: np.ndarray
    squares: np.ndarray


class Brier(NamedTuple):
    """The Brier score and its parts."""

    score: float
    reliability: float
    resolution: float
    uncertainty: float
    remainder: float


def logit(probability: np.ndarray) -> np.ndarray:
    """Returns log(p / (1 - p)), finite where p is 0 or 1."""
    p = np.clip(np.asarray(probability, np.float64), _SMALLEST, 1 - _SMALLEST)
    return np.log(p) - np.log1p(-p)


def bins_by_text(
    items: Items, probability: np.ndarray, chosen: np.ndarray | bool = True
) -> np.ndarray:
    """Puts the items of each text into `NUM_BINS` bins of [0, 1]."""
    num_texts = items.num_texts
    flat_bins = items.text * NUM_BINS + bin_of(probability)
    squares = (probability - items.is_error) ** 2
    values = (np.ones_like(squares), probability, items.is_error, squares)
    size = num_texts * NUM_BINS
    sums = [np.bincount(flat_bins, x * chosen, size) for x in values]
    return np.reshape(sums, (len(values), num_texts, NUM_BINS))


def bin_of(probability: np.ndarray) -> np.ndarray:
    """Returns the bin of each probability, int64 [n]; 1 is in the last."""
    return np.minimum((probability * NUM_BINS).astype(int), NUM_BINS - 1)


def calibration_error(found: Bins) -> float:
    """Computes the expected calibration error; NaN without items."""
    total = found.count.sum()
    gaps = np.abs(found.confidence - found.errors)
    return float(gaps.sum() / total) if total else np.nan


def brier(found: Bins) -> Brier:
    """Computes the Brier score and its parts."""
    used = found.count > 0
    count, confidence, errors, squares = (x[used] for x in found)
    share, p, y = count / count.sum(), confidence / count, errors / count
    mean = errors.sum() / count.sum()
    score = squares.sum() / count.sum()
    reliability = share @ (p - y) ** 2
    resolution = share @ (y - mean) ** 2
    uncertainty = mean * (1 - mean)
    parts = (reliability, resolution, uncertainty)
    remainder = score - (reliability - resolution + uncertainty)
    return Brier(*map(float, (score, *parts, remainder)))


def negative_log_likelihood(items: Items, temperature: float = 1.0) -> float:
    """Computes the mean of -log P(label), nats."""
    logits = items.error_score / temperature
    return float(np.mean(np.logaddexp(0, logits) - items.is_error * logits))


def fit_temperature(items: Items) -> float:
    """Returns the temperature with the least negative log-likelihood."""
    from scipy import optimize

    bound = np.log(MAX_TEMPERATURE)
    found = optimize.minimize_scalar(
        lambda log_t: negative_log_likelihood(items, np.exp(log_t)),
        bounds=(-bound, bound),
        method="bounded",
        options={"xatol": 1e-6},
    )
    if is_extreme(np.exp(found.x)):
        console.warn(
            f"The temperature is {np.exp(found.x):.4g}, an end of the range "
            "that is searched: the logits are uninformative, or there are too "
            "few texts. Do not use it."
        )
    return float(np.exp(found.x))


def is_extreme(temperature: float) -> bool:
    """Returns whether a fitted temperature is at an end of the range."""
    return abs(np.log(temperature)) > np.log(MAX_TEMPERATURE) - 1e-3
