"""Metadata beside a checkpoint are read; what is invalid is refused by name."""

import json
import shutil

import numpy as np
import pytest
import tiny
import tiny_networks
import tiny_scoring

from electra_tf.checkpoint import bundles, checkpoint_formats, loading
from electra_tf.util.errors import NonFiniteLossError, UserError


@pytest.mark.parametrize("labels", [None, 3, [1]])
def test_labels_that_are_no_texts_are_refused(tmp_path, labels):
    tiny_networks.save(tiny_networks.discriminator(), tmp_path)
    path = tmp_path / "architecture.json"
    stored = json.loads(path.read_text()) | {"labels": labels}
    path.write_text(json.dumps(stored))
    with pytest.raises(UserError, match=r"architecture\.json must have the"):
        checkpoint_formats.read(str(tmp_path))


@pytest.mark.promise(
    "A checkpoint with an infinity or no number in it: fine-tuning, conversion "
    "and every other command that reads it name the variable and end with "
    "exit code 4"
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_named(tmp_path, bad):
    tiny_networks.save(tiny_networks.discriminator(), tmp_path)
    prefix = bundles.find(tmp_path)
    arrays = bundles.read(prefix)
    name = "electra/encoder/layer_0/output/dense/bias"
    arrays[name][3] = bad
    bundles.write(prefix, arrays)
    message = rf"model\.ckpt-0 must hold finite .* in {name}\. Name an older"
    with pytest.raises(NonFiniteLossError, match=message):
        checkpoint_formats.read(str(tmp_path))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns the directory of a run with the default numbers of heads."""
    heads = {"num_attention_heads": None}
    root = tmp_path_factory.mktemp("run")
    return str(tiny_scoring.write_run(root, **heads)[1])


def test_the_default_number_of_heads_of_a_run_is_known(run):
    loaded = checkpoint_formats.read(run)
    assert not loaded.heads_are_assumed
    assert loaded.architecture.encoder.num_attention_heads == 1
    heads = {"num_attention_heads": 1, "generator_num_attention_heads": 1}
    checkpoint_formats.read(run, **heads)
    for name in heads:
        message = f"`{name}` must be 1, .* Received: {name}=4"
        with pytest.raises(UserError, match=message):
            checkpoint_formats.read(run, **{name: 4})


def test_a_vocabulary_that_is_given_replaces_that_of_the_run(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (copy / "inputs.json").write_text('{"vocabulary": "another"}')
    (copy / "vocab.txt").write_bytes(tiny.VOCABULARY.content)
    with pytest.raises(UserError, match="with other tokens"):
        checkpoint_formats.read(str(copy))
    path = str(copy / "vocab.txt")
    loaded = checkpoint_formats.read(str(copy), vocab_file=path)
    assert loaded.vocabulary == tiny.VOCABULARY


def test_hugging_faces_number_of_heads_cannot_be_overridden(tmp_path):
    pytest.importorskip("safetensors")
    network = tiny_networks.discriminator()
    weights = loading.weights_of(network)
    checkpoint_formats.write(str(tmp_path), weights, "hf")
    assert checkpoint_formats.read(str(tmp_path), num_attention_heads=2)
    with pytest.raises(UserError, match="must be 2, .* num_attention_heads=4"):
        checkpoint_formats.read(str(tmp_path), num_attention_heads=4)


@pytest.mark.parametrize("target", ["electra_tf", "hf"])
def test_a_checkpoint_whose_path_has_a_comma_is_read(tmp_path, target):
    if target == "hf":
        pytest.importorskip("safetensors")
    path = str(tmp_path / "de,en")
    written = loading.weights_of(tiny_networks.discriminator())
    checkpoint_formats.write(path, written, target)
    (tmp_path / "de").mkdir()
    assert (checkpoint_formats.format_of(path) == "hf") == (target == "hf")
    assert checkpoint_formats.read(path).arrays.keys() == written.arrays.keys()
