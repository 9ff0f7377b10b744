"""A network loaded from files computes the same as the saved one."""

import dataclasses
import json
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
import tiny
import tiny_networks
import tiny_scoring
from golden_weights import disentangled

import electra_tf
from electra_tf.checkpoint import bundles, loading
from electra_tf.checkpoint.weights import select
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import ElectraWarning, NonFiniteLossError, UserError


@pytest.fixture(scope="module")
def model():
    return tiny.model(tiny.config(initializer_range=0.3))


@pytest.fixture(scope="module")
def directory(model, tmp_path_factory):
    root = tmp_path_factory.mktemp("tf1")
    variables = tiny.checkpoint_variables(model)
    bundles.Checkpoints(root, variables).save(0)
    (root / "vocab.txt").write_bytes(tiny.VOCABULARY.content)
    return root


def read(directory):
    return loading.read(
        str(directory), num_attention_heads=2, generator_num_attention_heads=1
    )


@pytest.mark.parametrize("network", ["discriminator", "generator"])
@pytest.mark.parametrize("target", ["tf1", "electra_tf", "hf"])
def test_each_format_keeps_the_function(
    network, target, model, directory, tmp_path
):
    out, inputs = str(tmp_path / "out"), tiny.batch()
    lower = network == "generator"
    written = dataclasses.replace(
        read(directory), do_lower_case=lower, strip_accents=False
    )
    loading.write(out, written, target)
    if network == "generator":
        cls = electra_tf.ElectraGenerator
        states = model.generator(*inputs).sequence_output
        expected = model.generator_model.score(states)
    else:
        cls = electra_tf.ElectraDiscriminator
        expected = model.discriminate(inputs)
    loaded = cls.from_checkpoint(out)
    np.testing.assert_array_equal(loaded(inputs._asdict())["logits"], expected)
    assert loaded.vocabulary == tiny.VOCABULARY
    again = loading.weights_of(loaded)
    assert again.arrays.keys() == {v.path for v in loaded.weights}
    assert (again.do_lower_case, again.strip_accents) == (lower, False)


def test_an_assumed_number_of_heads_is_a_warning(directory):
    with pytest.warns(UserWarning):
        found = loading.load(str(directory), "generator", max_seq_length=8)
    assert found.reader.max_seq_length == 8


def test_the_range_of_values_is_that_of_the_trials_only_task(tmp_path):
    saved = tiny_networks.save(tiny_networks.discriminator(), tmp_path / "a")

    def value_range(*tasks):
        content = {"tasks": {f"task_{i}": x for i, x in enumerate(tasks)}}
        (tmp_path / "a/task.json").write_text(json.dumps(content))
        return loading.read(saved).value_range

    assert loading.read(saved).value_range == value_range({}) == ()
    assert value_range({"value_range": [1, 5]}, {}) == ()
    assert value_range({"value_range": [1, 5]}) == (1, 5)
    loading.write(str(tmp_path / "b"), loading.read(saved), "electra_tf")
    assert loading.read(str(tmp_path / "b")).value_range == (1, 5)


def test_weights_that_are_not_finite_are_named(tmp_path):
    tiny_networks.save(tiny_networks.discriminator(), tmp_path)
    arrays, name = bundles.read(tmp_path), "electra/embeddings_project/bias"
    arrays[name][3] = np.nan
    bundles.write(bundles.find(tmp_path), arrays)
    with pytest.raises(NonFiniteLossError, match=name):
        loading.read(str(tmp_path))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns the directory of a run with the default numbers of heads."""
    heads = {"num_attention_heads": None}
    root = tmp_path_factory.mktemp("run")
    return str(tiny_scoring.write_run(root, **heads)[1])


def test_the_settings_of_a_run_are_known_and_kept(run, tmp_path):
    loaded = loading.read(run)
    assert not loaded.heads_are_assumed
    assert loaded.architecture.encoder.num_attention_heads == 1
    loading.write(str(tmp_path), loaded, "tf1")
    reread = loading.read(str(tmp_path))
    assert reread.max_seq_length == loaded.max_seq_length == tiny.LENGTH


@pytest.mark.parametrize("target", ["electra_tf", "hf"])
def test_a_vocabulary_that_is_given_replaces_the_stored(target, tmp_path):
    path = str(tmp_path / "de,en")  # a comma separates checkpoints elsewhere
    weights = loading.weights_of(tiny_networks.discriminator())
    loading.write(path, weights, target)
    assert loading.read(path).arrays.keys() == weights.arrays.keys()
    other = tiny_networks.PERMUTED
    (tmp_path / "other.txt").write_bytes(other.content)
    loaded = loading.read(path, vocab_file=str(tmp_path / "other.txt"))
    assert loaded.vocabulary == other


CASED = Vocabulary((*tiny_networks.VOCABULARY.tokens[:-1], "Anna"))


@pytest.mark.parametrize("stored", [None, True, False])
def test_capitals_of_a_vocabulary_tell_the_case_that_no_file_says(
    stored, tmp_path
):
    written = loading.weights_of(tiny_networks.discriminator(CASED))
    written = dataclasses.replace(written, do_lower_case=stored)
    loading.write(tmp_path / "x", written, "tf1")
    path = str(tmp_path / "x")
    with pytest.warns(ElectraWarning) if stored is None else nullcontext():
        assert loading.load(path).reader.do_lower_case == bool(stored)
        given = loading.load(path, do_lower_case=not stored)
    assert given.reader.do_lower_case == (not stored)


def test_what_would_be_silently_wrong_is_refused(directory, run, tmp_path):
    weights, vocab = read(directory), tmp_path / "vocab.txt"
    vocab.write_text("\n".join([*tiny.VOCABULARY.tokens, "more"]))
    loading.write(str(tmp_path / "hf"), select(weights, "generator"), "hf")
    hf = str(tmp_path / "hf")
    for call in (
        lambda: loading.write(str(directory), weights, "tf1"),  # not empty
        lambda: loading.write(str(tmp_path / "x"), disentangled(), "tf1"),
        lambda: loading.read(str(directory), vocab_file=str(vocab)),
        lambda: loading.read(run, num_attention_heads=4),
        lambda: loading.read(run, generator_num_attention_heads=4),
        lambda: loading.read(hf, num_attention_heads=4),
        lambda: electra_tf.ElectraDiscriminator.from_checkpoint(
            hf, "generator"
        ),
        lambda: loading.row_length(65, 0, 64),
    ):
        with pytest.raises(UserError):
            call()


VOCABULARY, OTHER = tiny_networks.VOCABULARY, tiny_networks.PERMUTED
WORD_PIECES = {"tokenizer": "wordpiece", "vocab_file": ""}
DIGEST = json.dumps({"vocabulary": VOCABULARY.sha256})


@pytest.fixture
def model_dir(tmp_path):
    """Returns the directory of a run beside whose data is `OTHER`."""
    directory = tmp_path / "data/models/run"
    directory.mkdir(parents=True)
    (tmp_path / "data/vocab.txt").write_bytes(OTHER.content)
    return directory


@pytest.mark.parametrize("is_moved", [True, False])
def test_the_named_file_is_read_before_that_of_the_data(
    model_dir, tmp_path, is_moved
):
    data_dir = model_dir.parent.parent
    (data_dir / "mine.txt").write_bytes(VOCABULARY.content)
    settings = WORD_PIECES | {"vocab_file": str(data_dir / "mine.txt")}
    if is_moved:
        shutil.move(data_dir, tmp_path / "moved")
        model_dir = tmp_path / "moved/models/run"
    assert loading.find_vocabulary(model_dir, settings) == VOCABULARY
    (model_dir / "inputs.json").write_text(DIGEST)
    assert loading.find_vocabulary(model_dir, settings) == VOCABULARY


def test_another_vocabulary_than_in_training_is_refused(model_dir):
    assert loading.find_vocabulary(model_dir, WORD_PIECES) == OTHER
    pieces = WORD_PIECES | {"tokenizer": "sentencepiece"}
    assert loading.find_vocabulary(model_dir, pieces) is None
    (model_dir / "inputs.json").write_text(DIGEST)
    with pytest.raises(UserError):
        loading.find_vocabulary(model_dir, WORD_PIECES)
    (model_dir / "vocab.txt").write_bytes(VOCABULARY.content)
    assert loading.find_vocabulary(model_dir, WORD_PIECES) == VOCABULARY
