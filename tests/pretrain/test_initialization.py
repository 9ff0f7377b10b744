"""A run starts from a checkpoint of any format and prints what it took."""

import dataclasses

import numpy as np
import pytest
import tiny
import tiny_scoring

from electra_tf.checkpoint import (
    architecture,
    checkpoint_formats,
    loading,
    weights,
)
from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import initialization
from electra_tf.pretrain.electra_pretrainer import ElectraPretrainer
from electra_tf.util.errors import UserError

STEP = 7
ONE_LAYER = {"num_hidden_layers": 1}


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


def start(path, vocabulary=tiny.VOCABULARY, **leaves):
    model = make(vocabulary, init_checkpoint=str(path), **leaves)
    initialization.assign(model, initialization.read(model.config))
    return model, tiny.arrays(model)


def test_weights_slots_and_step_are_the_checkpoints(source, capsys):
    root, expected = source
    _, found = start(root)
    tiny.assert_same(found, expected)
    stdout = capsys.readouterr().out
    assert "48 of 48 weights" in stdout
    assert f"96 slots of Adam, to continue from step {STEP}" in stdout


def test_the_step_can_be_reset(source):
    root, expected = source
    _, found = start(root, reset_step=True)
    assert found["global_step"] == 0
    name = "electra/embeddings/word_embeddings/adam_v"
    np.testing.assert_array_equal(found[name], expected[name])


def test_hugging_faces_directories_start_a_run(source, tmp_path):
    root, expected = source
    loaded = checkpoint_formats.read(
        str(root), num_attention_heads=2, generator_num_attention_heads=1
    )
    checkpoint_formats.write(str(tmp_path / "hf"), loaded, "hf")
    _, found = start(tmp_path / "hf")
    for name, array in expected.items():
        if "adam" not in name and name != "global_step":
            np.testing.assert_array_equal(found[name], array)
    assert found["global_step"] == 0


def test_embedding_differences_resume_and_are_added_in_a_single_network(
    tmp_path,
):
    sharing = {"generator_sharing": "gradient_disentangled"}
    model, expected = write(tmp_path / "run", **sharing)
    name = "electra/embeddings/word_embeddings_difference"
    assert {name, f"{name}/adam_m"} < expected.keys()
    _, found = start(tmp_path / "run", **sharing)
    tiny.assert_same(found, expected)
    path = str(tmp_path / "run")
    heads = {"num_attention_heads": 2, "generator_num_attention_heads": 1}
    read = checkpoint_formats.read(path, **heads)
    with pytest.raises(UserError, match="one by one, with --network"):
        checkpoint_formats.write(str(tmp_path / "tf1"), read, "tf1")
    for kind in ("tf1", "hf"):
        directory = str(tmp_path / kind)
        checkpoint_formats.write(
            directory, read, kind, networks=["discriminator"]
        )
        again = checkpoint_formats.read(directory, num_attention_heads=2)
        network, inputs = loading.make(again), tiny.batch()
        states = network.encoder(*inputs).sequence_output
        np.testing.assert_allclose(
            network.head(states), model.discriminate(inputs), atol=1e-5
        )


def test_another_vocabulary_keeps_the_words_both_have(source, capsys):
    root, expected = source
    words = ["new", *tiny.VOCABULARY.tokens[5:][::-1]]
    other = Vocabulary((*tiny.SPECIALS, *words))
    _, found = start(root, other)
    table = "electra/embeddings/word_embeddings"
    for slot in ("", "/adam_m"):
        np.testing.assert_array_equal(
            found[table + slot][6:], expected[table + slot][5:][::-1]
        )
    assert "60 rows kept, 1 new, 0 dropped" in capsys.readouterr().out


def test_words_of_a_vocabulary_of_the_same_size_keep_their_rows(source):
    root, expected = source
    words = [*tiny.VOCABULARY.tokens[6:], "new"]
    _, found = start(root, Vocabulary((*tiny.SPECIALS, *words)))
    table = "electra/embeddings/word_embeddings"
    np.testing.assert_array_equal(found[table][5:-1], expected[table][6:])


def test_a_generator_alone_keeps_the_rows_of_words_in_a_shared_table(source):
    root, expected = source
    words = [*tiny.VOCABULARY.tokens[6:], "new"]
    other = Vocabulary((*tiny.SPECIALS, *words))
    model = make(other, generator_checkpoint=str(root))
    loaded = initialization.read_generator(model.config)
    known = initialization.assign_generator(model, loaded)
    found = tiny.arrays(model)
    table = "electra/embeddings/word_embeddings"
    np.testing.assert_array_equal(found[table][5:-1], expected[table][6:])
    own = ("generator", "electra/embeddings/")
    assert known == {v.path for v in model.weights if v.path.startswith(own)}


def test_a_generator_whose_heads_are_not_known_takes_those_of_flags(
    source, tmp_path
):
    loaded = checkpoint_formats.read(str(source[0]), num_attention_heads=2)
    checkpoint_formats.write(str(tmp_path / "tf1"), loaded, "tf1")
    (tmp_path / "tf1" / "architecture.json").unlink()  # as the original's
    config = tiny.config(
        **ONE_LAYER,
        generator_checkpoint=str(tmp_path / "tf1"),
        generator_num_attention_heads=2,
    )
    assert initialization.read_generator(config).heads_are_assumed


def test_a_longer_position_table_repeats_the_old(source, capsys):
    root, expected = source
    _, found = start(root, max_position_embeddings=48)
    name = "electra/embeddings/position_embeddings"
    np.testing.assert_array_equal(found[name][:32], expected[name])
    np.testing.assert_array_equal(found[name][32:], expected[name][:16])
    assert "Position embeddings: 32 rows kept" in capsys.readouterr().out


def test_other_sizes_are_refused_with_the_flags_to_give(source):
    with pytest.raises(UserError, match="Give --hidden_size=16 --inter"):
        start(source[0], hidden_size=32)
    with pytest.raises(
        UserError, match="Give .*--generator_sharing=embeddings"
    ):
        start(source[0], generator_sharing="all", generator_hidden_size=0.25)


def test_the_default_number_of_heads_of_a_run_is_compared(tmp_path):
    defaults = ONE_LAYER | {
        "num_attention_heads": None,
        "generator_num_attention_heads": None,
        "generator_hidden_size": 0.25,
        "num_hidden_layers": 1,
    }
    _, run = tiny_scoring.write_run(tmp_path, **defaults)
    start(run, **defaults)
    for name in ("num_attention_heads", "generator_num_attention_heads"):
        message = f"`{name}` must be 1, .* Received: {name}=4"
        with pytest.raises(UserError, match=message):
            start(run, **defaults | {name: 4})
    with pytest.raises(UserError, match="Give --hidden_size=16 --num_att"):
        start(run, **defaults | {"hidden_size": 128})


def test_a_vocabulary_keeps_its_letter_case(source, tmp_path):
    loaded = checkpoint_formats.read(
        str(source[0]), num_attention_heads=2, generator_num_attention_heads=1
    )
    path = tmp_path / "cased"
    cased = dataclasses.replace(loaded, do_lower_case=False)
    checkpoint_formats.write(str(path), cased, "electra_tf")
    vocab_file = {"vocab_file": str(path / "vocab.txt")}
    with pytest.raises(UserError, match="letter case.*Give --nodo_lower_case"):
        start(path, **vocab_file)
    with pytest.raises(UserError, match="Give --nodo_lower_case"):
        start(path, **vocab_file, pad_vocab_to_multiple=64)
    with pytest.raises(UserError, match="Give --nodo_lower_case"):
        config = tiny.config(init_checkpoint=str(path), **ONE_LAYER)
        ElectraPretrainer(config, vocab_file["vocab_file"])
    start(path, **vocab_file, do_lower_case=False, strip_accents=False)
    start(source[0], **vocab_file, do_lower_case=False)  # its own: not known
    other = Vocabulary((*tiny.VOCABULARY.tokens, "new"))
    (path / "other.txt").write_bytes(other.content)
    start(path, other, vocab_file=str(path / "other.txt"))


def test_accents_are_kept_or_removed_as_in_the_checkpoint(source, tmp_path):
    loaded = checkpoint_formats.read(
        str(source[0]), num_attention_heads=2, generator_num_attention_heads=1
    )
    path = tmp_path / "accents"
    kept = dataclasses.replace(loaded, do_lower_case=True, strip_accents=False)
    checkpoint_formats.write(str(path), kept, "electra_tf")
    vocab_file = {"vocab_file": str(path / "vocab.txt")}
    with pytest.raises(UserError, match="Give --nostrip_accents, or"):
        start(path, **vocab_file)
    start(path, **vocab_file, strip_accents=False)


def test_a_finished_training_is_refused(source):
    with pytest.raises(UserError, match="more than .* 7. Received: num_train"):
        start(source[0], num_train_steps=STEP)


def test_missing_weights_are_refused_unless_allowed(source, tmp_path, capsys):
    root, expected = source
    loaded = checkpoint_formats.read(
        str(root), num_attention_heads=2, generator_num_attention_heads=1
    )
    checkpoint_formats.write(
        str(tmp_path / "d"), loaded, "electra_tf", networks=["discriminator"]
    )
    message = "(?s)missing: generator/encoder/layer_0.*init_partially"
    model = make(init_checkpoint="unread")
    with pytest.raises(UserError, match=message):
        initialization.assign(model, weights.select(loaded, "discriminator"))
    _, found = start(tmp_path / "d", init_partially=True)
    name = "electra/encoder/layer_0/output/dense/kernel"
    np.testing.assert_array_equal(found[name], expected[name])
    assert "missing: generator/" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("network", "leaves", "message"),
    [
        ("discriminator", {}, "a generator .*'electra'.*a discriminator alone"),
        ("discriminator", {"objective": "replace_mlm"}, "a generator"),
        ("discriminator", {}, "DISCRIMINATOR,GENERATOR, or set --init_parti"),
        ("generator", {}, "main network .*'electra'.*a generator alone"),
        ("generator", {}, "DISCRIMINATOR,GENERATOR, .*--generator_checkpoint"),
        ("generator", {"generator_type": "uniform"}, "Name a discriminator, "),
    ],
)
def test_one_network_of_two_is_refused_when_it_is_read(
    source, tmp_path, network, leaves, message
):
    config = _start_of_one(source[0], tmp_path, network, **leaves)
    with pytest.raises(UserError, match=f"init_checkpoint.*{message}"):
        initialization.read(config)


@pytest.mark.parametrize(
    ("network", "leaves"),
    [
        ("discriminator", {"init_partially": True}),
        ("discriminator", {"generator_type": "uniform"}),
        ("generator", {"objective": "mlm", "hidden_size": 8}),
    ],
)
def test_one_network_alone_starts_an_objective_that_has_no_other(
    source, tmp_path, network, leaves
):
    config = _start_of_one(source[0], tmp_path, network, **leaves)
    assert initialization.read(config).networks == (network,)


def _start_of_one(root, directory, network, **leaves):
    """Returns a configuration that starts from one network of a checkpoint."""
    loaded = checkpoint_formats.read(
        str(root), num_attention_heads=2, generator_num_attention_heads=1
    )
    path = str(directory / network)
    checkpoint_formats.write(path, loaded, "electra_tf", networks=[network])
    if network == "generator":
        leaves["num_attention_heads"] = 1
    return tiny.config(**ONE_LAYER, init_checkpoint=path, **leaves)


def test_a_run_without_a_vocabulary_reads_text_as_the_checkpoints(
    source, tmp_path
):
    loaded = checkpoint_formats.read(
        str(source[0]), num_attention_heads=2, generator_num_attention_heads=1
    )
    cased = dataclasses.replace(loaded, do_lower_case=False)
    checkpoint_formats.write(str(tmp_path / "cased"), cased, "electra_tf")
    leaves = {**ONE_LAYER, "init_checkpoint": str(tmp_path / "cased")}
    config = tiny.config(tmp_path / "data", **leaves)
    with pytest.raises(UserError, match="Give --nodo_lower_case, or another"):
        initialization.read(config)
    learned = str(tmp_path / "new.txt")  # does not exist yet
    config = tiny.config(tmp_path / "data", **leaves, vocab_file=learned)
    initialization.read(config)


def test_networks_of_another_objective_are_left_out_if_allowed(source, capsys):
    root, expected = source
    leaves = {"objective": "mlm", "seed": 3}
    with pytest.raises(UserError, match="not in this objective: disc"):
        start(root, **leaves)
    _, found = start(root, **leaves, init_partially=True)
    name = "electra/encoder/layer_0/output/dense/kernel"
    for slot in ("", "/adam_m"):
        np.testing.assert_array_equal(found[name + slot], expected[name + slot])
    stdout = capsys.readouterr().out
    assert "not in this objective: discriminator_predictions/" in stdout
    # The head of a narrower generator does not fit.
    other = "generator_predictions/dense/kernel"
    assert f"{other} [8, 8], expected [16, 8]" in stdout
    assert not found[f"{other}/adam_m"].any()


def test_size_flags_rebuild_the_networks_of_a_checkpoint(source):
    loaded = checkpoint_formats.read(
        str(source[0]), num_attention_heads=2, generator_num_attention_heads=1
    )
    flags = architecture.size_flags(loaded.architecture)
    config = tiny.config(**{"generator_hidden_size": 0.25, **flags})
    configured = config.model.discriminator(60), config.model.generator(60)
    stored = loaded.architecture.encoder, loaded.architecture.generator
    for one, other in zip(configured, stored, strict=True):
        for name in (
            *("hidden_size", "num_hidden_layers", "embedding_size"),
            *("intermediate_size", "num_attention_heads"),
        ):
            assert getattr(one, name) == getattr(other, name)
