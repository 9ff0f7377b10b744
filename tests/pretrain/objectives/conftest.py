"""An objective that is not in the package, for the modules that ask for it."""

import new_objective
import pytest


@pytest.fixture(scope="module")
def registered():
    """Registers `new_objective` during the tests of a module."""
    with new_objective.registered():
        yield
