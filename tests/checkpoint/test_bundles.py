"""A bundle is found by any of its paths; errors name a damaged one."""

import numpy as np
import pytest

from electra_tf.checkpoint import bundles
from electra_tf.util.errors import UserError

ARRAYS = {"a/b": np.arange(6.0).reshape(2, 3), "step": np.array(7, np.int64)}


@pytest.mark.parametrize("name", ["x", "m [1]", "*?", "b\\[", "{a,b}"])
def test_a_bundle_with_special_characters_is_read_as_written(tmp_path, name):
    (tmp_path / name).mkdir()
    prefix = tmp_path / name / name
    bundles.write(prefix, ARRAYS)
    assert bundles.find(prefix) == bundles.find(tmp_path / name) == prefix
    read = bundles.read(prefix)
    assert read.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype
    assert bundles.find_damage(prefix, ARRAYS) is None
    assert "2 variables, not 1" in bundles.find_damage(prefix, ["a/b"])
    with pytest.raises(UserError, match="must be a checkpoint that can be re"):
        bundles.read(tmp_path / name / "none")


@pytest.mark.parametrize(
    "name", ["", "x", "x.index", "x.meta", "x.data-00000-of-00001"]
)
def test_a_bundle_is_found_by_each_of_its_names(tmp_path, name):
    bundles.write(tmp_path / "x", ARRAYS)
    assert bundles.find(tmp_path / name) == tmp_path / "x"


def test_the_newest_bundle_of_a_run_is_found(tmp_path):
    for step in (3, 20, 100):
        bundles.write(tmp_path / f"model.ckpt-{step}", ARRAYS)
    assert bundles.find(tmp_path).name == "model.ckpt-100"


def test_a_comma_separates_paths_unless_it_is_in_that_of_one(tmp_path):
    (tmp_path / "de,en").mkdir()
    bundles.write(tmp_path / "de,en/x", ARRAYS)
    for name in ("de,en", "de,en/x", "de,en/x.index"):
        path = str(tmp_path / name)
        assert bundles.split_paths(path) == [path]
    assert bundles.split_paths(f"{tmp_path}/de,x") == [f"{tmp_path}/de", "x"]


def test_a_path_without_one_readable_bundle_is_refused(tmp_path):
    with pytest.raises(UserError, match="nothing at that path"):
        bundles.find(tmp_path / "x")
    with pytest.raises(UserError, match="no file that ends in .index"):
        bundles.find(tmp_path)
    for name in ("x", "y"):
        bundles.write(tmp_path / name, ARRAYS)
    with pytest.raises(UserError, match="Received: x, y"):
        bundles.find(tmp_path)
    (tmp_path / "z.index").write_bytes(b"\x80\x04pickled, or whatever")
    with pytest.raises(UserError, match="z must be a checkpoint that can be"):
        bundles.read(tmp_path / "z")
