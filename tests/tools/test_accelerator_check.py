"""The accelerator check: its comparisons and refusals, and a run on a CPU."""

import subprocess
import sys

import accelerator_check
import numpy as np
import pytest


def _run(losses, weights):
    losses = np.array(losses, np.float64)
    return accelerator_check.Run(losses, {"w": np.array(weights, np.float32)})


@pytest.mark.parametrize(
    ("losses", "passed"),
    [([10.0, 5.004], True), ([10.0, 5.006], False), ([10.0, np.nan], False)],
)
def test_losses_are_compared_by_their_ratio(losses, passed):
    expected = _run([10.0, 5.0], [])
    check = accelerator_check._compare_losses(
        "x", _run(losses, []), expected, 1e-3
    )
    assert check.passed is passed


def test_one_bit_makes_a_resume_fail():
    whole = _run([], [1.0, 0.0])
    assert accelerator_check._compare_variables(
        whole, _run([], [1.0, 0.0])
    ).passed
    other = accelerator_check._compare_variables(whole, _run([], [1.0, -0.0]))
    assert not other.passed and other.found == "1 of 1 variables differ"


@pytest.mark.slow
def test_the_checks_pass_on_two_devices_of_a_cpu():
    done = subprocess.run(
        [sys.executable, accelerator_check.__file__, "--device=cpu", "--quick"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| pass |") == 3
    for size in ("small", "base"):
        assert f"| {size}, bfloat16, 8 x 16 | " in done.stdout
