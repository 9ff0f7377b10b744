"""Scores of label words, against NumPy formulas of the networks' logits."""

import numpy as np
import pytest
import tiny_networks

from electra_tf.analysis.prompts.prompt_rows import PromptRow
from electra_tf.analysis.prompts.scorers import NetworkScorer

ROWS = [
    PromptRow((2, 5, 6, 16, 7, 3), (2, 3)),
    PromptRow((2, 9, 3), (1,)),
    PromptRow((2, 8, 8, 10, 11, 5, 6, 3), (5,)),
]


def logits(network, ids):
    outputs = network({"input_ids": np.array([ids], np.int32)})
    return outputs["logits"].numpy()[0].astype(np.float64)


def discriminator_score(network, row):
    return -logits(network, row.ids)[list(row.positions)].mean()


def mlm_score(network, row):
    mask = network.vocabulary.mask_id
    masked = [mask if i in row.positions else x for i, x in enumerate(row.ids)]
    found = logits(network, masked)
    values = []
    for i in row.positions:
        p = np.exp(found[i] - found[i].max())
        values.append(np.log(p[row.ids[i]] / p.sum()))
    return np.mean(values)


@pytest.mark.parametrize(
    ("make", "formula"),
    [
        (tiny_networks.discriminator, discriminator_score),
        (tiny_networks.generator, mlm_score),
    ],
)
@pytest.mark.parametrize(
    "batch_size", [2, pytest.param(8, marks=pytest.mark.slow)]
)
def test_a_score_is_the_mean_over_the_tokens_of_the_word(
    make, formula, batch_size
):
    network = make(dtype="float32")
    found = NetworkScorer(network, batch_size).score(ROWS)
    expected = [formula(network, row) for row in ROWS]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert np.ptp(expected) > 0.01  # the rows differ
