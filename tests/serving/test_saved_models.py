"""A SavedModel is written in full or not at all, and leaves no other files."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.serving import saved_models

TOKENS = [f"t{i}" for i in range(12)]


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


@pytest.mark.parametrize(("num_tokens", "num_top"), [(12, 10), (3, 3)])
def test_top_tokens_are_sorted_and_only_at_selected_positions(
    num_tokens, num_top
):
    logits = tf.range(num_tokens, dtype=tf.float32)[tf.newaxis]
    logits = tf.pad(logits, [[0, 0], [0, 2]])  # two rows without a token
    is_selected = tf.constant([[False, True], [False, False]])
    found = saved_models.top_tokens(logits, is_selected, TOKENS[:num_tokens])
    tokens, p = (found[k].numpy() for k in ("top_tokens", "top_probabilities"))
    assert tokens.shape == p.shape == (2, 2, num_top)
    best = [f"t{num_tokens - 1 - i}".encode() for i in range(num_top)]
    assert tokens[0, 1].tolist() == best
    e = np.exp(np.arange(num_tokens))
    np.testing.assert_allclose(
        p[0, 1], (e / (e.sum() + 2))[::-1][:num_top], rtol=1e-5
    )
    assert not p[~is_selected.numpy()].any()
    assert set(tokens[~is_selected.numpy()].flat) == {b""}


def _export_dense(path):
    """Writes two endpoints of one layer; returns the layer."""
    layer = keras.layers.Dense(128)
    layer.build((None, 128))
    endpoints = {
        "serving_default": lambda x: {"y": layer(x)},
        "twice": lambda x: {"y": layer(layer(x))},
    }
    spec = [tf.TensorSpec([None, 128], tf.float32, "x")]
    frozen = saved_models.with_constants(endpoints, [layer])
    saved_models.write(path, frozen, spec)
    return layer


def test_weights_are_constants_that_endpoints_share(tmp_path):
    layer = _export_dense(tmp_path / "1")
    size = (tmp_path / "1/saved_model.pb").stat().st_size
    least = 4 * 128 * 128
    assert least < size < 1.7 * least + 10_000
    loaded = tf.saved_model.load(tmp_path / "1")
    x = tf.random.stateless_normal([3, 128], [0, 1])
    once, twice = (
        loaded.signatures[name](x=x)["y"]
        for name in ("serving_default", "twice")
    )
    np.testing.assert_allclose(once, layer(x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(twice, layer(layer(x)), rtol=1e-5, atol=1e-5)
    variables = tf.train.list_variables(tmp_path / "1/variables/variables")
    assert not any("kernel" in name for name, _ in variables)


def test_weights_too_large_for_a_graph_stay_variables(tmp_path, monkeypatch):
    monkeypatch.setattr(saved_models, "MAX_CONSTANT_BYTES", 4 * 128 * 128)
    layer = _export_dense(tmp_path / "1")
    assert (tmp_path / "1/saved_model.pb").stat().st_size < 4 * 128 * 128
    x = tf.ones([3, 128])
    found = tf.saved_model.load(tmp_path / "1").signatures["twice"](x=x)["y"]
    np.testing.assert_allclose(found, layer(layer(x)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [0, 32, 33])
def test_blocks_together_are_all_rows(count):
    def compute(rows):
        x = tf.range(count)[rows]
        size = tf.fill(tf.shape(x), tf.size(x))
        return x, tf.stack([x, size], 1)

    specs = [tf.TensorSpec(shape, tf.int32) for shape in ([None], [None, 2])]
    found, pairs = saved_models.in_blocks(tf.constant(count), compute, specs)
    np.testing.assert_array_equal(found, np.arange(count))
    np.testing.assert_array_equal(pairs[:, 0], np.arange(count))
    assert max(pairs[:, 1], default=0) <= saved_models.BLOCK_SIZE
