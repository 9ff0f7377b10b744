"""Metadata beside a checkpoint are read; what is invalid is refused by name."""

import json
import shutil

import numpy as np
import pytest
import tiny
import tiny_networks
import tiny_scoring
from golden_weights import disentangled

from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.checkpoint import bundles, checkpoint_formats, loading
from electra_tf.util.errors import NonFiniteLossError, UserError

MALFORMED = r"architecture\.json must have the"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("labels", None, MALFORMED),
        ("labels", 3, MALFORMED),
        ("labels", [1], MALFORMED),
        ("max_seq_length", "16", MALFORMED),
        ("value_range", [5, 1], MALFORMED),
        ("hidden_dropout_prob", 2, "{path}.*`hidden_dropout_prob` must be"),
    ],
)
def test_an_invalid_setting_is_refused_with_its_path(
    tmp_path, field, value, message
):
    tiny_networks.save(tiny_networks.discriminator(), tmp_path)
    path = tmp_path / "architecture.json"
    stored = json.loads(path.read_text()) | {field: value}
    path.write_text(json.dumps(stored))
    with pytest.raises(UserError, match=message.format(path=tmp_path)):
        checkpoint_formats.read(str(tmp_path))


def test_the_range_of_values_is_that_of_the_trials_only_task(tmp_path):
    saved = tiny_networks.save(tiny_networks.discriminator(), tmp_path / "a")

    def value_range(*tasks):
        content = {"tasks": {f"task_{i}": x for i, x in enumerate(tasks)}}
        (tmp_path / "a/task.json").write_text(json.dumps(content))
        return checkpoint_formats.read(saved).value_range

    assert checkpoint_formats.read(saved).value_range == ()
    assert value_range({}) == ()
    assert value_range({"value_range": [1, 5]}, {}) == ()
    assert value_range({"value_range": [1, 5]}) == (1, 5)
    loaded = checkpoint_formats.read(saved)
    checkpoint_formats.write(str(tmp_path / "b"), loaded, "electra_tf")
    reread = checkpoint_formats.read(str(tmp_path / "b"))
    assert reread.value_range == (1, 5)  # without the description of the task
    with pytest.raises(UserError, match=r"task\.json must have the"):
        value_range({"value_range": [5, 1]})


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


@pytest.mark.parametrize("target", ["electra_tf", "tf1"])
def test_the_length_of_training_rows_is_kept(run, tmp_path, target):
    loaded = checkpoint_formats.read(run)
    checkpoint_formats.write(str(tmp_path), loaded, target)
    reread = checkpoint_formats.read(str(tmp_path))
    assert reread.max_seq_length == loaded.max_seq_length == tiny.LENGTH
    assert Scorer.from_checkpoint(tmp_path).max_seq_length == tiny.LENGTH


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
    network = tiny_networks.discriminator()
    weights = loading.weights_of(network)
    checkpoint_formats.write(str(tmp_path), weights, "hf")
    assert checkpoint_formats.read(str(tmp_path), num_attention_heads=2)
    with pytest.raises(UserError, match="must be 2, .* num_attention_heads=4"):
        checkpoint_formats.read(str(tmp_path), num_attention_heads=4)


def test_a_vocabulary_that_is_given_replaces_hugging_faces(tmp_path):
    weights = loading.weights_of(tiny_networks.discriminator())
    checkpoint_formats.write(str(tmp_path / "x"), weights, "hf")
    other = tiny_networks.PERMUTED
    (tmp_path / "other.txt").write_bytes(other.content)
    loaded = checkpoint_formats.read(
        str(tmp_path / "x"), vocab_file=str(tmp_path / "other.txt")
    )
    assert loaded.vocabulary == other


def test_more_than_two_directories_of_hugging_faces_are_refused():
    with pytest.raises(UserError, match="At most two directories.*a,b,c"):
        checkpoint_formats.read("a,b,c", "hf")


def test_sharing_that_the_original_lacks_is_not_written_for_it(
    tmp_path,
):
    with pytest.raises(UserError, match="generator_sharing=gradient_disentan"):
        checkpoint_formats.write(str(tmp_path), disentangled(), "tf1")
    assert not tmp_path.exists()  # it was empty


@pytest.mark.parametrize("target", ["electra_tf", "hf"])
def test_a_checkpoint_whose_path_has_a_comma_is_read(tmp_path, target):
    path = str(tmp_path / "de,en")
    written = loading.weights_of(tiny_networks.discriminator())
    checkpoint_formats.write(path, written, target)
    (tmp_path / "de").mkdir()
    assert (checkpoint_formats.format_of(path) == "hf") == (target == "hf")
    assert checkpoint_formats.read(path).arrays.keys() == written.arrays.keys()
