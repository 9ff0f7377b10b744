"""A network loaded from files computes the same as the saved one."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tiny
import tiny_networks
import tiny_scoring
from golden_weights import disentangled

import electra_tf
from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.checkpoint import bundles, loading
from electra_tf.model import sentencepiece_model
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import NonFiniteLossError, UserError


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


def logits(model, network, inputs):
    if network == "discriminator":
        states = model.electra(*inputs).sequence_output
        return model.discriminator_predictions(states).numpy()
    states = model.generator(*inputs).sequence_output
    table = model.generator.embeddings.word_embeddings
    return model.generator_predictions(states, table).numpy()


@pytest.mark.parametrize("network", ["discriminator", "generator"])
@pytest.mark.parametrize("target", ["tf1", "electra_tf", "hf"])
def test_each_format_keeps_the_function(
    network, target, model, directory, tmp_path
):
    out = tmp_path / "out"
    loading.write(str(out), read(directory), target)
    loaded = loading.load(str(out), network)
    inputs = tiny.batch()
    ours = loaded(inputs._asdict())["logits"]
    np.testing.assert_array_equal(ours, logits(model, network, inputs))
    assert loaded.vocabulary == tiny.VOCABULARY
    classes = {"discriminator": electra_tf.ElectraDiscriminator}
    assert type(loaded) is classes.get(network, electra_tf.ElectraGenerator)
    again = loading.weights_of(loaded)
    assert again.arrays.keys() == {v.path for v in loaded.weights}
    assert again.do_lower_case is again.strip_accents is True


def test_a_class_takes_its_own_network_and_refuses_others(directory):
    with pytest.warns(UserWarning):
        found = electra_tf.ElectraGenerator.from_checkpoint(
            str(directory), max_seq_length=8
        )
    assert found.reader.max_seq_length == 8
    with pytest.warns(UserWarning), pytest.raises(UserError):
        electra_tf.ElectraDiscriminator.from_checkpoint(
            str(directory), "generator"
        )


@pytest.mark.parametrize("lower", [None, False, True])
@pytest.mark.parametrize("strip", [None, False, True])
def test_an_unknown_option_of_the_tokenizer_is_true(directory, lower, strip):
    known = dataclasses.replace(
        read(directory), do_lower_case=lower, strip_accents=strip
    )
    assert loading.tokenizer_options(known) == {
        "do_lower_case": lower in (None, True),
        "strip_accents": strip in (None, True),
    }


def test_a_full_directory_is_not_written_to(directory):
    with pytest.raises(UserError):
        loading.write(str(directory), read(directory), "tf1")


@pytest.mark.parametrize("target", ["tf1", "hf"])
def test_a_vocabulary_larger_than_the_table_is_refused(
    directory, tmp_path, target
):
    source = tmp_path / "out"
    loading.write(
        str(source), read(directory), target, networks=["discriminator"]
    )
    words = [*tiny.VOCABULARY.tokens, "more"]
    (source / "vocab.txt").write_text("\n".join(words))
    with pytest.raises(UserError):
        loading.read(str(source))


@pytest.mark.parametrize(
    ("given", "trained", "longest", "expected"),
    [
        (0, 128, 512, 128),
        (0, 128, 64, 64),
        (0, 0, 1024, 512),
        (0, 0, 64, 64),
        (300, 128, 512, 300),
    ],
)
def test_a_row_is_as_long_as_asked_for_or_as_in_training(
    given, trained, longest, expected
):
    assert loading.row_length(given, trained, longest) == expected


@pytest.mark.parametrize("given", [2, 65])
def test_a_row_that_no_network_can_read_is_refused(given):
    with pytest.raises(UserError):
        loading.row_length(given, 0, 64)


MALFORMED = r"architecture\.json must have the"


def test_the_range_of_values_is_that_of_the_trials_only_task(tmp_path):
    saved = tiny_networks.save(tiny_networks.discriminator(), tmp_path / "a")

    def value_range(*tasks):
        content = {"tasks": {f"task_{i}": x for i, x in enumerate(tasks)}}
        (tmp_path / "a/task.json").write_text(json.dumps(content))
        return loading.read(saved).value_range

    assert loading.read(saved).value_range == ()
    assert value_range({}) == ()
    assert value_range({"value_range": [1, 5]}, {}) == ()
    assert value_range({"value_range": [1, 5]}) == (1, 5)
    loaded = loading.read(saved)
    loading.write(str(tmp_path / "b"), loaded, "electra_tf")
    reread = loading.read(str(tmp_path / "b"))
    assert reread.value_range == (1, 5)  # without the description of the task


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
    with pytest.raises(NonFiniteLossError):
        loading.read(str(tmp_path))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns the directory of a run with the default numbers of heads."""
    heads = {"num_attention_heads": None}
    root = tmp_path_factory.mktemp("run")
    return str(tiny_scoring.write_run(root, **heads)[1])


def test_the_default_number_of_heads_of_a_run_is_known(run):
    loaded = loading.read(run)
    assert not loaded.heads_are_assumed
    assert loaded.architecture.encoder.num_attention_heads == 1
    heads = {"num_attention_heads": 1, "generator_num_attention_heads": 1}
    loading.read(run, **heads)
    for name in heads:
        with pytest.raises(UserError):
            loading.read(run, **{name: 4})


@pytest.mark.parametrize("target", ["electra_tf", "tf1"])
def test_the_length_of_training_rows_is_kept(run, tmp_path, target):
    loaded = loading.read(run)
    loading.write(str(tmp_path), loaded, target)
    reread = loading.read(str(tmp_path))
    assert reread.max_seq_length == loaded.max_seq_length == tiny.LENGTH
    assert Scorer.from_checkpoint(tmp_path).max_seq_length == tiny.LENGTH


def test_a_vocabulary_that_is_given_replaces_that_of_the_run(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (copy / "inputs.json").write_text('{"vocabulary": "another"}')
    (copy / "vocab.txt").write_bytes(tiny.VOCABULARY.content)
    with pytest.raises(UserError):
        loading.read(str(copy))
    path = str(copy / "vocab.txt")
    loaded = loading.read(str(copy), vocab_file=path)
    assert loaded.vocabulary == tiny.VOCABULARY


def test_hugging_faces_number_of_heads_cannot_be_overridden(tmp_path):
    network = tiny_networks.discriminator()
    weights = loading.weights_of(network)
    loading.write(str(tmp_path), weights, "hf")
    assert loading.read(str(tmp_path), num_attention_heads=2)
    with pytest.raises(UserError):
        loading.read(str(tmp_path), num_attention_heads=4)


def test_a_vocabulary_that_is_given_replaces_hugging_faces(tmp_path):
    weights = loading.weights_of(tiny_networks.discriminator())
    loading.write(str(tmp_path / "x"), weights, "hf")
    other = tiny_networks.PERMUTED
    (tmp_path / "other.txt").write_bytes(other.content)
    loaded = loading.read(
        str(tmp_path / "x"), vocab_file=str(tmp_path / "other.txt")
    )
    assert loaded.vocabulary == other


def test_sharing_that_the_original_lacks_is_not_written_for_it(
    tmp_path,
):
    with pytest.raises(UserError):
        loading.write(str(tmp_path), disentangled(), "tf1")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("target", ["electra_tf", "hf"])
def test_a_checkpoint_whose_path_has_a_comma_is_read(tmp_path, target):
    path = str(tmp_path / "de,en")
    written = loading.weights_of(tiny_networks.discriminator())
    loading.write(path, written, target)
    (tmp_path / "de").mkdir()
    assert (loading.format_of(path) == "hf") == (target == "hf")
    assert loading.read(path).arrays.keys() == written.arrays.keys()


VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "a", "b", "c"))
OTHER = Vocabulary((*SPECIAL_TOKENS, "c", "b", "a"))
WORD_PIECES = {"tokenizer": "wordpiece", "vocab_file": ""}
PIECES = {"tokenizer": "sentencepiece", "vocab_file": ""}


@pytest.fixture
def moved_run(tmp_path):
    """Returns the directory of a run beside whose data is `OTHER`."""
    directory = tmp_path / "data/models/run"
    directory.mkdir(parents=True)
    (tmp_path / "data/vocab.txt").write_bytes(OTHER.content)
    return directory


def _store_digest(moved_run, vocabulary):
    (moved_run / "inputs.json").write_text(
        json.dumps({"vocabulary": vocabulary.sha256})
    )


def test_a_sentencepiece_model_is_not_mistaken_for_word_pieces(moved_run):
    data_dir = moved_run.parent.parent
    text = ["a b c ab bc abc", "ab ab bc"]
    content = sentencepiece_model.learn(
        text,
        model_type="unigram",
        vocab_size=16,
        do_lower_case=True,
        strip_accents=True,
    )
    (data_dir / "spm.model").write_bytes(content)
    found = loading.find_vocabulary(moved_run, PIECES)
    assert found.sentencepiece == content
    assert loading.find_vocabulary(moved_run, WORD_PIECES) == OTHER
    (data_dir / "spm.model").unlink()
    assert loading.find_vocabulary(moved_run, PIECES) is None


@pytest.mark.parametrize("has_digest", [True, False])
@pytest.mark.parametrize("is_moved", [True, False])
def test_the_named_file_is_read_before_that_of_the_data(
    moved_run, tmp_path, has_digest, is_moved
):
    data_dir = moved_run.parent.parent
    (data_dir / "mine.txt").write_bytes(VOCABULARY.content)
    settings = WORD_PIECES | {"vocab_file": str(data_dir / "mine.txt")}
    if has_digest:
        _store_digest(moved_run, VOCABULARY)
    if is_moved:
        shutil.move(data_dir, tmp_path / "moved")
        moved_run = tmp_path / "moved/models/run"
    assert loading.find_vocabulary(moved_run, settings) == VOCABULARY


def test_another_vocabulary_than_in_training_is_refused(moved_run):
    _store_digest(moved_run, VOCABULARY)
    with pytest.raises(UserError):
        loading.find_vocabulary(moved_run, WORD_PIECES)
    (moved_run / "vocab.txt").write_bytes(VOCABULARY.content)
    assert loading.find_vocabulary(moved_run, WORD_PIECES) == VOCABULARY


def test_tokens_that_pad_the_vocabulary_of_a_run_are_no_other_tokens(moved_run):
    _store_digest(moved_run, OTHER.padded(16))
    settings = WORD_PIECES | {"pad_vocab_to_multiple": 16}
    assert loading.find_vocabulary(moved_run, settings) == OTHER
    with pytest.raises(UserError):
        loading.find_vocabulary(moved_run, WORD_PIECES)


def test_bundles_of_no_run_have_any_vocabulary_beside_them(moved_run, tmp_path):
    assert loading.find_vocabulary(moved_run, {}) == OTHER
    (moved_run / "vocab.txt").write_bytes(VOCABULARY.content)
    assert loading.find_vocabulary(moved_run, {}) == VOCABULARY
    assert loading.find_vocabulary(tmp_path, {}) is None
