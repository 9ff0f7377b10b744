"""A network loaded from files computes the same as the saved one."""

import dataclasses

import numpy as np
import pytest
import tiny

import electra_tf
from electra_tf.checkpoint import bundles, checkpoint_formats, loading
from electra_tf.util.errors import UserError


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
    return checkpoint_formats.read(
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
    checkpoint_formats.write(str(out), read(directory), target)
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
    with pytest.warns(UserWarning, match="1 are assumed"):
        found = electra_tf.ElectraGenerator.from_checkpoint(
            str(directory), max_seq_length=8
        )
    assert found.reader.max_seq_length == 8
    with pytest.warns(UserWarning), pytest.raises(UserError, match="hold an"):
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
    with pytest.raises(UserError, match="new or an empty directory"):
        checkpoint_formats.write(str(directory), read(directory), "tf1")


def test_numbers_of_heads_must_agree(directory, tmp_path):
    out = tmp_path / "out"
    checkpoint_formats.write(str(out), read(directory), "electra_tf")
    with pytest.raises(UserError, match="must be 2.*num_attention_heads=4"):
        checkpoint_formats.read(str(out), num_attention_heads=4)


@pytest.mark.parametrize("target", ["tf1", "hf"])
def test_a_vocabulary_larger_than_the_table_is_refused(
    directory, tmp_path, target
):
    source = tmp_path / "out"
    checkpoint_formats.write(
        str(source), read(directory), target, networks=["discriminator"]
    )
    words = [*tiny.VOCABULARY.tokens, "more"]
    (source / "vocab.txt").write_text("\n".join(words))
    with pytest.raises(UserError, match="at most 60 tokens.*61.*--vocab_file"):
        checkpoint_formats.read(str(source))


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
    with pytest.raises(UserError, match="must be from 3 to 64"):
        loading.row_length(given, 0, 64)
