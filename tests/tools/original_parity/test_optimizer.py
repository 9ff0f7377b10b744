"""Our updates are the original's, step by step."""

import golden_arrays
import pytest
from original_parity import optimizer

DIRECTORY = golden_arrays.ROOT / "optimizer"


@pytest.mark.parametrize("name", optimizer.cases(DIRECTORY))
def test_every_update_is_the_originals(name):
    result = optimizer.compare(DIRECTORY, name)
    assert result.weights <= 1e-6
    assert result.slots <= 1e-6
    assert result.steps_ahead
