"""A run starts from a checkpoint of any format."""

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
ONE_LAYER = {"num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "generator_num_attention_heads": 1}
TABLE = "electra/embeddings/word_embeddings"
KERNEL = "electra/encoder/layer_0/output/dense/kernel"


def make(vocabulary=tiny.VOCABULARY, **leaves):
    return tiny.model(tiny.config(**ONE_LAYER | leaves), vocabulary)


def write(root, **leaves):
    """Writes a checkpoint of random numbers; returns model and arrays."""
    model = make(seed=1, objective="electra", **leaves)
    variables = tiny.checkpoint_variables(model)
    rng = np.random.default_rng(0)
    for variable in variables.values():
        if variable.dtype.is_floating:
            variable.assign(rng.normal(size=variable.shape))
    model.optimizer.iterations.assign(STEP)
    Checkpoints(root, variables).save(STEP)
    (root / "vocab.txt").write_bytes(tiny.VOCABULARY.content)
    return model, tiny.arrays(model)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Returns a directory with a checkpoint, and the checkpoint's arrays."""
    root = tmp_path_factory.mktemp("source")
    _, arrays = write(root)
    return root, arrays


@pytest.fixture(scope="module")
def loaded(source):
    return loading.read(str(source[0]), **HEADS)


def start(path, vocabulary=tiny.VOCABULARY, **leaves):
    model = make(vocabulary, init_checkpoint=str(path), **leaves)
    initialization.assign(model, initialization.read_model(model.config))
    return model, tiny.arrays(model)


def test_weights_slots_and_step_are_the_checkpoints(source):
    root, expected = source
    tiny.assert_same(start(root)[1], expected)
    _, found = start(root, reset_step=True)
    assert found.pop("global_step") == 0
    tiny.assert_same(
        found, {k: v for k, v in expected.items() if k != "global_step"}
    )


def test_hugging_faces_directories_start_a_run(source, loaded, tmp_path):
    loading.write(str(tmp_path / "hf"), loaded, "hf")
    _, found = start(tmp_path / "hf")
    for name, array in source[1].items():
        if "adam" not in name and name != "global_step":
            np.testing.assert_array_equal(found[name], array)
    assert found["global_step"] == 0


def test_embedding_differences_resume_and_are_added_in_a_single_network(
    tmp_path,
):
    sharing = {"generator_sharing": "gradient_disentangled"}
    model, expected = write(tmp_path / "run", **sharing)
    assert f"{TABLE}_difference/adam_m" in expected
    tiny.assert_same(start(tmp_path / "run", **sharing)[1], expected)
    read = loading.read(str(tmp_path / "run"), **HEADS)
    directory = str(tmp_path / "hf")
    loading.write(directory, read, "hf", networks=["discriminator"])
    again = loading.read(directory, num_attention_heads=2)
    network, inputs = loading.make(again), tiny.batch()
    states = network.encoder(*inputs).sequence_output
    np.testing.assert_allclose(
        network.head(states), model.discriminate(inputs), atol=1e-5
    )


@pytest.mark.parametrize("slot", ["", "/adam_m"])
def test_another_vocabulary_keeps_the_words_both_have(source, slot):
    root, expected = source
    words = tiny.VOCABULARY.tokens
    _, found = start(root, Vocabulary((*words[:5], "new", *words[:4:-1])))
    np.testing.assert_array_equal(
        found[TABLE + slot][6:], expected[TABLE + slot][5:][::-1]
    )
    _, found = start(root, Vocabulary((*words[:5], *words[6:], "new")))
    np.testing.assert_array_equal(
        found[TABLE + slot][5:-1], expected[TABLE + slot][6:]
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


def test_a_longer_position_table_repeats_the_old(source):
    root, expected = source
    _, found = start(root, max_position_embeddings=48)
    name = "electra/embeddings/position_embeddings"
    np.testing.assert_array_equal(found[name][:32], expected[name])
    np.testing.assert_array_equal(found[name][32:], expected[name][:16])


@pytest.mark.parametrize(
    "leaves",
    [
        {"hidden_size": 32},
        {"num_attention_heads": 4},
        {"generator_sharing": "all", "generator_hidden_size": 0.25},
        {"objective": "mlm"},
        {"num_train_steps": STEP},
        {"do_lower_case": False},
        {"strip_accents": False},
    ],
)
def test_settings_that_do_not_fit_a_checkpoint_are_refused(
    loaded, tmp_path, leaves
):
    path = tmp_path / "lower"
    lower = dataclasses.replace(loaded, do_lower_case=True, strip_accents=True)
    loading.write(str(path), lower, "electra_tf")
    vocab_file = str(path / "vocab.txt")
    start(path, vocab_file=vocab_file)
    with pytest.raises(UserError):
        start(path, vocab_file=vocab_file, **leaves)


@pytest.mark.parametrize("network", ["discriminator", "generator"])
def test_one_network_of_two_is_refused(loaded, tmp_path, network):
    path = str(tmp_path / network)
    loading.write(path, loaded, "electra_tf", networks=[network])
    with pytest.raises(UserError):
        start(path)
    if network == "generator":
        leaves = {"objective": "mlm", "hidden_size": 8}
        start(path, num_attention_heads=1, intermediate_size=32, **leaves)
