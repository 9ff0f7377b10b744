"""CKA against the definition of unbiased HSIC, and its invariances."""

import itertools

import numpy as np
import pytest

from electra_tf.analysis.representations import cka


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def by_definition(x, y):
    """Computes HSIC as the mean over all quadruples of different words.

    E[k l] + E[k] E[l] - 2 E[k l of one word in common], of different words.
    """
    k, other = x @ x.T, y @ y.T
    terms = [
        k[i, j] * (other[i, j] + other[q, r] - 2 * other[i, q])
        for i, j, q, r in itertools.permutations(range(len(x)), 4)
    ]
    return np.mean(terms)


def test_hsic_is_its_definition():
    layers = [random(7, 3), random(7, 5, seed=1) + 2.0]
    expected = [[by_definition(x, y) for y in layers] for x in layers]
    np.testing.assert_allclose(cka.hsic(layers), expected, rtol=1e-9)


def test_cka_is_invariant_to_rotation_scale_and_shift():
    x, y = random(40, 6), random(40, 9, seed=1)
    y[:, :6] += x
    rotation, _ = np.linalg.qr(random(6, 6, seed=2))
    layers = [x, y, -3.0 * x @ rotation + 5.0]
    found = cka.cka(cka.hsic(layers)[None])
    assert found[0, 2] == pytest.approx(1)
    assert found[0, 1] == pytest.approx(found[2, 1])
    assert 0.05 < found[0, 1] < 0.95
    np.testing.assert_allclose(found, found.T)
    np.testing.assert_allclose(np.diagonal(found), 1)


def biased_cka(x, y):
    """Computes the biased estimate by its formula."""
    x, y = x - x.mean(0), y - y.mean(0)
    cross = np.linalg.norm(x.T @ y) ** 2
    return cross / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))


def test_wide_independent_layers_of_few_words_are_not_alike():
    batches = [
        [random(24, 200, seed=2 * i), random(24, 200, seed=2 * i + 1)]
        for i in range(50)
    ]
    found = cka.cka(np.stack([cka.hsic(x) for x in batches]))[0, 1]
    assert biased_cka(*batches[0]) > 0.8
    assert abs(found) < 0.05


def test_cka_of_many_words_is_near_the_biased_estimate():
    x = random(600, 3)
    y = np.tanh(x) + 0.5 * random(600, 3, seed=1)
    found = cka.cka(cka.hsic([x, y])[None])[0, 1]
    assert found == pytest.approx(biased_cka(x, y), abs=0.01)


def test_minibatches_are_averaged_before_the_ratio():
    first, second = np.diag([1.0, 4.0]), np.diag([3.0, 12.0])
    first[0, 1] = first[1, 0] = 1.0
    second[0, 1] = second[1, 0] = 3.0
    found = cka.cka(np.stack([first, second]))
    assert found[0, 1] == pytest.approx(2 / np.sqrt(2 * 8))


def test_cka_of_constant_states_is_nan():
    found = cka.cka(cka.hsic([np.ones((8, 3)), random(8, 3)])[None])
    assert np.isnan(found[0]).all() and found[1, 1] == pytest.approx(1)
