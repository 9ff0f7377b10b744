"""The matrix products of an update, against a list of their shapes."""

import matrix_products
import pytest
import tiny


def _count(*shapes):
    return sum(2 * m * n * k for m, n, k in shapes)


def _encoder(length, embedding, hidden, heads, layers):
    size = hidden // heads
    block = [
        *4 * [(length, hidden, hidden)],  # query, key, value, output
        *heads * [(length, size, length), (length, length, size)],
        (length, hidden, 4 * hidden),
        (length, 4 * hidden, hidden),
    ]
    projection = [(length, embedding, hidden)] if embedding != hidden else []
    return _count(*projection, *layers * block)


@pytest.mark.parametrize("embedding", [8, 16])
def test_flops_of_an_update_are_those_of_its_matrix_products(embedding):
    config = tiny.config(
        max_seq_length=16,
        hidden_size=16,
        num_attention_heads=2,
        num_hidden_layers=2,
        embedding_size=embedding,
        generator_hidden_size=0.5,  # 8, with one head
        mask_prob=0.25,  # 4 of 16
    )
    forward = (
        _encoder(16, embedding, 16, heads=2, layers=2)
        + _count((16, 16, 16))  # the head; its output of one value is left out
        + _encoder(16, embedding, 8, heads=1, layers=2)
        + _count((4, 8, embedding), (4, embedding, 60))
    )
    assert matrix_products.update_flops(config, 60) == 3 * forward
