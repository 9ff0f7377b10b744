"""Linear centred kernel alignment (CKA): the similarity of two layers' states.

It is 1 if the states of one layer are a rotation and scaling of the other's,
and 0 if they are independent. The biased estimate grows with the width of the
layers relative to the number of words, and is near 1 for wide layers and few
words whatever the states. Here the Hilbert-Schmidt independence criterion
(HSIC) is estimated without bias, and averaged over minibatches of words before
the ratio is taken: neither memory nor the expectation of HSIC depends on the
number of words.

Letters in shapes: S layers, n words in a minibatch, H width of a layer.

Source: Kornblith et al., 2019 (CKA); Song et al., 2012, equation 5 (unbiased
HSIC); Nguyen et al., 2021, section 3 (minibatches).
"""

from collections.abc import Sequence

import numpy as np

MIN_WORDS = 4
"""Least size of a minibatch; for fewer words HSIC has no unbiased estimate."""


def hsic(states: Sequence[np.ndarray]) -> np.ndarray:
    """Computes unbiased estimates of HSIC of all pairs of layers, a minibatch.

    Shapes: returns [S, S].
    """
    n = len(states[0])
    grams = np.stack([_gram(layer) for layer in states])  # [S, n, n]
    sums = grams.sum(2)  # [S, n]
    totals = sums.sum(1)  # [S]
    flat = grams.reshape(len(grams), -1)
    traces = flat @ flat.T
    corrections = np.outer(totals, totals) / ((n - 1) * (n - 2))
    corrections -= sums @ sums.T * (2 / (n - 2))
    return (traces + corrections) / (n * (n - 3))


def _gram(states: np.ndarray) -> np.ndarray:
    """Returns the Gram matrix of the states, with 0 on the diagonal."""
    # Centring does not change the estimate, and loses fewer digits.
    centred = states.astype(np.float64) - states.mean(0, dtype=np.float64)
    gram = centred @ centred.T
    np.fill_diagonal(gram, 0)
    return gram


def cka(criteria: np.ndarray) -> np.ndarray:
    """Computes CKA between all pairs of layers.

    Shapes: returns [S, S].
    """
    mean = criteria.mean(0)
    own = np.sqrt(np.maximum(np.diagonal(mean), 0))
    scale = np.outer(own, own)
    return np.divide(mean, scale, np.full_like(mean, np.nan), where=scale > 0)
