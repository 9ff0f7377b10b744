"""Small operations use half of the cores."""

import pytest

from electra_tf.util import threads

_VARIABLE = "TF_NUM_INTRAOP_THREADS"


@pytest.fixture
def environment(monkeypatch):
    """An empty environment."""
    monkeypatch.setattr(threads.os, "environ", variables := {})
    return variables


@pytest.mark.parametrize(("num_cores", "half"), [(1, "1"), (2, "1"), (8, "4")])
def test_small_operations_have_half_of_the_cores(
    environment, monkeypatch, num_cores, half
):
    monkeypatch.setattr(threads.machine, "num_cores", lambda: num_cores)
    assert f": {half} " in threads.limit_intra_op_threads(2048 * 128)
    assert environment[_VARIABLE] == half


def test_large_operations_have_all_cores(environment):
    assert ": all " in threads.limit_intra_op_threads(4096 * 256)
    assert _VARIABLE not in environment


def test_the_environment_variable_takes_precedence(environment):
    environment[_VARIABLE] = "3"
    assert ": 3 " in threads.limit_intra_op_threads(1)
    assert environment[_VARIABLE] == "3"
