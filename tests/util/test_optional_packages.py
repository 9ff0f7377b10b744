import pytest

from electra_tf.util import optional_packages
from electra_tf.util.errors import UserError


def test_a_package_that_is_there_is_imported():
    assert optional_packages.load("json.decoder", "x").JSONDecodeError


def test_a_missing_package_names_the_command_that_installs_it():
    with pytest.raises(UserError, match=r"install -e '.\[analysis\]'"):
        optional_packages.load("no_such_package", "analysis")
