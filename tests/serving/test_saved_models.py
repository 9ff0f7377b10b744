"""A SavedModel is written in full or not at all, and leaves no other files."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.serving import saved_models


def _write(path, monkeypatch, content):
    def save(module, path, **_):
        pathlib.Path(path).mkdir()
        pathlib.Path(path, "saved_model.pb").write_text(content)
        if not content:
            raise KeyboardInterrupt

    monkeypatch.setattr(tf.saved_model, "save", save)
    saved_models.write(path, {}, [])


def test_an_export_is_complete_or_leaves_the_older_one(tmp_path, monkeypatch):
    (tmp_path / "tmp-1/variables").mkdir(parents=True)  # of a killed export
    _write(tmp_path / "1", monkeypatch, "old")
    with pytest.raises(KeyboardInterrupt):
        _write(tmp_path / "1", monkeypatch, "")
    assert (tmp_path / "1/saved_model.pb").read_text() == "old"
    _write(tmp_path / "1", monkeypatch, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


@pytest.mark.parametrize("is_constant", [True, False])
def test_endpoints_share_weights_that_are_constants_if_a_graph_holds_them(
    is_constant, tmp_path, monkeypatch
):
    if not is_constant:
        monkeypatch.setattr(saved_models, "MAX_CONSTANT_BYTES", 4 * 128 * 128)
    layer = keras.layers.Dense(128)
    layer.build((None, 128))
    endpoints = {
        "serving_default": lambda x: {"y": layer(x)},
        "twice": lambda x: {"y": layer(layer(x))},
    }
    spec = [tf.TensorSpec([None, 128], tf.float32, "x")]
    frozen = saved_models.with_constants(endpoints, [layer])
    saved_models.write(tmp_path / "1", frozen, spec)
    size, least = (tmp_path / "1/saved_model.pb").stat().st_size, 4 * 128 * 128
    assert (least < size < 1.7 * least + 10_000) == is_constant
    loaded = tf.saved_model.load(tmp_path / "1")
    x = tf.random.stateless_normal([3, 128], [0, 1])
    once, twice = (
        loaded.signatures[name](x=x)["y"]
        for name in ("serving_default", "twice")
    )
    np.testing.assert_allclose(once, layer(x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(twice, layer(layer(x)), rtol=1e-5, atol=1e-5)
    variables = tf.train.list_variables(tmp_path / "1/variables/variables")
    assert ([128, 128] in [shape for _, shape in variables]) != is_constant
