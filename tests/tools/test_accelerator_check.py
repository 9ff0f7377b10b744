"""The accelerator check on two devices of a CPU."""

import subprocess
import sys

import accelerator_check
import numpy as np
import pytest


@pytest.mark.parametrize(("bit", "passed"), [(0.0, True), (-0.0, False)])
def test_one_bit_makes_a_resume_fail(bit, passed):
    runs = [
        accelerator_check.Run(np.zeros(0), {"w": np.array(x, np.float32)})
        for x in ([1.0, 0.0], [1.0, bit])
    ]
    assert accelerator_check._compare_variables(*runs).passed is passed


@pytest.mark.slow
def test_the_checks_pass_on_a_cpu():
    done = subprocess.run(
        [sys.executable, accelerator_check.__file__, "--device=cpu", "--quick"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.count("| pass |") == 3
