"""A run starts from a checkpoint."""

import dataclasses

import numpy as np
import pytest
import tiny

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import initialization
from electra_tf.util.errors import UserError

STEP = 7
HEADS = {"num_attention_heads": 2, "generator_num_attention_heads": 1}
TABLE = "electra/embeddings/word_embeddings"


def make(vocabulary=tiny.VOCABULARY, **leaves):
    return tiny.model(
        tiny.config(**{"num_hidden_layers": 1} | leaves), vocabulary
    )


def write(root, **leaves):
    """Writes a checkpoint of random numbers; returns its arrays."""
    variables = tiny.checkpoint_variables(make(seed=1, **leaves))
    rng = np.random.default_rng(0)
    for variable in variables.values():
        if variable.dtype.is_floating:
            variable.assign(rng.normal(size=variable.shape))
    variables["global_step"].assign(STEP)
    Checkpoints(root, variables).save(STEP)
    (root / "vocab.txt").write_bytes(tiny.VOCABULARY.content)
    return {name: variable.numpy() for name, variable in variables.items()}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Returns a directory with a checkpoint, and the checkpoint's arrays."""
    root = tmp_path_factory.mktemp("source")
    return root, write(root)


def start(path, vocabulary=tiny.VOCABULARY, **leaves):
    model = make(vocabulary, init_checkpoint=str(path), **leaves)
    initialization.assign(model, initialization.read_model(model.config))
    return tiny.arrays(model)


def test_weights_slots_and_step_are_the_checkpoints(source, tmp_path):
    root, expected = source
    tiny.assert_same(start(root), expected)
    again = start(root, reset_step=True)
    tiny.assert_same(again, {**expected, "global_step": 0})
    sharing = {"generator_sharing": "gradient_disentangled"}
    expected = write(tmp_path, **sharing)
    assert f"{TABLE}_difference/adam_m" in expected
    tiny.assert_same(start(tmp_path, **sharing), expected)


@pytest.mark.parametrize("slot", ["", "/adam_m"])
def test_another_vocabulary_keeps_the_words_both_have(source, slot):
    root, expected = source
    words = tiny.VOCABULARY.tokens
    found = start(root, Vocabulary((*words[:5], "new", *words[:4:-1])))
    np.testing.assert_array_equal(
        found[TABLE + slot][6:], expected[TABLE + slot][5:][::-1]
    )


def test_a_generator_alone_keeps_the_rows_of_words_in_a_shared_table(source):
    root, expected = source
    words = [*tiny.VOCABULARY.tokens[6:], "new"]
    other = Vocabulary((*tiny.SPECIALS, *words))
    model = make(other, generator_checkpoint=str(root))
    read = initialization.read_generator(model.config)
    assigned = initialization.assign_generator(model, read)
    found = tiny.arrays(model)
    np.testing.assert_array_equal(found[TABLE][5:-1], expected[TABLE][6:])
    own = ("generator", "electra/embeddings/")
    assert assigned == {v.path for v in model.weights if v.path.startswith(own)}


@pytest.mark.parametrize(
    "leaves",
    [
        {"num_attention_heads": 4},
        {"generator_sharing": "all", "generator_hidden_size": 0.25},
        {"objective": "mlm"},
        {"do_lower_case": False},
        {"strip_accents": False},
        {"num_train_steps": 5},  # before the checkpoint's step
    ],
)
def test_settings_that_do_not_fit_a_checkpoint_are_refused(
    source, tmp_path, leaves
):
    loaded = loading.read(str(source[0]), **HEADS)
    lower = dataclasses.replace(loaded, do_lower_case=True, strip_accents=True)
    loading.write(str(tmp_path / "lower"), lower, "electra_tf")
    path, vocab_file = tmp_path / "lower", str(tmp_path / "lower/vocab.txt")
    start(path, vocab_file=vocab_file)
    with pytest.raises(UserError):
        start(path, vocab_file=vocab_file, **leaves)


def test_a_generator_alone_starts_a_masked_language_model(source, tmp_path):
    loaded, path = loading.read(str(source[0]), **HEADS), str(tmp_path / "one")
    loading.write(path, loaded, "electra_tf", networks=["generator"])
    with pytest.raises(UserError):
        start(path)
    leaves = {"num_attention_heads": 1, "intermediate_size": 32}
    start(path, objective="mlm", hidden_size=8, **leaves)
