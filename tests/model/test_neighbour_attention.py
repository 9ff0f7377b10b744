import numpy as np
import pytest

from electra_tf.model import neighbour_attention


@pytest.mark.parametrize("num_positions", [16, 40])
def test_rotation_shifts_positions(num_positions):
    table = neighbour_attention.position_table(num_positions, 16)
    waves = neighbour_attention.frequencies(num_positions, 16)
    for shift in (-2, -1, 1, 3):
        rotated = table @ neighbour_attention._rotation(waves, shift).T
        np.testing.assert_allclose(
            rotated[3:10], table[3 + shift : 10 + shift], atol=1e-9
        )


def test_positions_have_unit_size_and_are_nearly_orthogonal():
    table = neighbour_attention.position_table(64, 128)
    np.testing.assert_allclose(np.mean(table**2, 1), 1.0)
    products = table @ table.T / 128
    assert np.abs(products - np.eye(64)).max() < 0.7
    assert np.abs(products - np.eye(64)).mean() < 0.02


def test_heads_alternate_between_left_and_right():
    offsets = [neighbour_attention.offset(head) for head in range(6)]
    assert offsets == [-1, 1, -2, 2, -3, 3]
    for direction, sign in (("left_to_right", -1), ("right_to_left", 1)):
        offsets = [
            neighbour_attention.offset(head, direction) for head in range(12)
        ]
        assert offsets == [sign * (head + 1) for head in range(12)]
