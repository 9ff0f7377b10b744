"""Nearest neighbours in an embedding table."""

import numpy as np
import pytest
import tiny_networks

from electra_tf.analysis.representations import neighbours
from electra_tf.util.errors import UserError


@pytest.fixture(scope="module")
def network():
    model = tiny_networks.discriminator(dtype="float32")
    table = model.encoder.embeddings.word_embeddings
    values = np.eye(*table.shape, dtype=np.float32)
    ids = tiny_networks.VOCABULARY.ids
    values[ids["good"]] = np.array([1, 1, 0, 0, 0, 0, 0, 0])
    values[ids["bad"]] = np.array([2, 1, 0, 0, 0, 0, 0, 0])
    values[ids["film"]] = np.array([0, 3, 0, 0, 0, 0, 0, 0])
    values[ids["[UNK]"]] = np.array([1, 1, 0, 0, 0, 0, 0, 0])
    table.assign(values)
    return model


def test_neighbours_are_by_cosine_without_special_tokens(network):
    found = neighbours.of_words({"model": network}, ["good"])
    first, second, *_ = found["good"]["model"]
    assert first == ("bad", pytest.approx(3 / np.sqrt(10)))
    assert second == ("film", pytest.approx(1 / np.sqrt(2)))
    names = [name for name, _ in found["good"]["model"]]
    assert len(names) == 5 and not {"good", "[UNK]"} & {*names}


@pytest.mark.parametrize(
    ("word", "pieces"), [("goods", "good ##s"), ("xyz", "UNK"), ("", "nothing")]
)
def test_a_word_must_be_one_piece(network, word, pieces):
    with pytest.raises(UserError, match=pieces):
        neighbours.of_words({"model": network}, [word])
