"""Our updates are the original's, step by step."""

import shutil

import golden_arrays
import numpy as np
import pytest

from original_parity import optimizer

DIRECTORY = golden_arrays.ROOT / "optimizer"


@pytest.mark.parametrize("name", optimizer.cases(DIRECTORY))
def test_every_update_is_the_originals(name):
    result = optimizer.compare(DIRECTORY, name)
    assert result.weights <= 1e-6
    assert result.slots <= 1e-6
    assert result.steps_ahead


@pytest.mark.parametrize("end", ["", "/adam_m", "/adam_v"])
def test_one_other_variable_or_slot_after_one_update_is_found(tmp_path, end):
    """So the test of parity can fail."""
    arrays = dict(np.load(DIRECTORY / "warmup_zero.npz"))
    name = max(x for x in arrays if x.startswith("after0/")).split("/adam_")[0]
    arrays[name + end] = 1.01 * arrays[name + end]
    np.savez(tmp_path / "warmup_zero.npz", **arrays)
    shutil.copy(DIRECTORY / "summary.json", tmp_path)
    result = optimizer.compare(tmp_path, "warmup_zero")
    differences = {"": result.weights}.get(end, result.slots)
    assert differences == pytest.approx(0.01 / 1.01, rel=1e-3)
