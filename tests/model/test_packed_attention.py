"""A document in a packed row has the states that it has alone."""

import dataclasses

import numpy as np
import pytest
import tiny

from electra_tf.model.modeling import BertModel
from electra_tf.model.two_tower import TwoTowerModel
from electra_tf.util import seeds

CONFIG = tiny.BERT
NEIGHBOURS = dataclasses.replace(CONFIG, attention_initializer="neighbours")
NUMBERS = [1, 1, 2, 2, 2, 3, 0, 0]
# Attention to neighbours has logits of up to 64. Products of 16, 16 and 4 terms
# round a logit by some 6 units of 64 * 2**-24, depending on the machine and the
# length of the row; probabilities, and so states of size 1, are off by as much
# in each of two layers.
ROUNDING = 2 * 6 * 64 * 2**-24


def _alone(inputs):
    """Yields row, columns and inputs of each document of packed rows."""
    numbers = inputs.input_mask.numpy()
    for row in range(len(numbers)):
        for number in range(1, numbers[row].max() + 1):
            columns = np.flatnonzero(numbers[row] == number)
            ids, _, segments = (
                x.numpy()[row : row + 1, columns] for x in inputs
            )
            yield row, columns, (ids, np.ones_like(ids), segments)


def _twins(make):
    """Yields layers of equal weights for plain and for packed rows."""
    for is_packed in (False, True):
        with seeds.seed_initializers(0):
            layer = make(is_packed=is_packed)
            if not layer.built:
                layer.build((None, None))
        yield layer


@pytest.mark.parametrize(
    ("config", "direction"),
    [
        (CONFIG, "both"),
        (CONFIG, "left_to_right"),
        (CONFIG, "right_to_left"),
        (NEIGHBOURS, "both"),
        (NEIGHBOURS, "right_to_left"),
    ],
)
def test_an_encoder_has_the_states_of_each_document_alone(config, direction):
    plain, packed = _twins(
        lambda is_packed: BertModel(
            config, direction=direction, is_packed=is_packed
        )
    )
    inputs = tiny.packed_batch(3)
    output = packed(*inputs)
    for row, columns, document in _alone(inputs):
        alone = plain(*document)
        for actual, expected in zip(
            [output.embedding_output, *output.all_layers],
            [alone.embedding_output, *alone.all_layers],
            strict=True,
        ):
            actual = actual.numpy()[row, columns]
            np.testing.assert_allclose(actual, expected[0], atol=ROUNDING)


def test_two_towers_predict_a_documents_words_as_if_it_were_alone():
    plain, packed = _twins(
        lambda is_packed: TwoTowerModel(CONFIG, is_packed=is_packed)
    )
    inputs = tiny.packed_batch(3)
    states = packed(*inputs).numpy()
    for row, columns, document in _alone(inputs):
        alone = plain(*document).numpy()[0]
        inner = slice(1, -1)  # neither [CLS] nor [SEP] is ever predicted
        actual = states[row, columns]
        np.testing.assert_allclose(actual[inner], alone[inner], atol=1e-5)
        # The ends do not depend on neighbours in the row.
        np.testing.assert_allclose(actual[0, 16:], alone[0, 16:], atol=1e-5)
        np.testing.assert_allclose(actual[-1, :16], alone[-1, :16], atol=1e-5)
        if len(columns) < tiny.LENGTH:
            assert not actual[0, :16].any()
            assert not actual[-1, 16:].any()
