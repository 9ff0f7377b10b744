"""Networks come out and go together whole; tables keep what they can."""

import dataclasses

import golden_arrays
import numpy as np
import pytest
import tiny

from electra_tf.model import architecture, weights
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

DIRECTORY = golden_arrays.HERE / "golden/model"


def read(name, **fields):
    arrays = dict(np.load(DIRECTORY / f"{name}_vars.npz"))
    found = architecture.infer({n: a.shape for n, a in arrays.items()})
    made = weights.Weights(
        origin=name, arrays=arrays, architecture=found, **fields
    )
    return weights.with_slots(made)


def check(made):
    """Fails if arrays and architecture do not belong together."""
    shapes = {name: array.shape for name, array in made.arrays.items()}
    assert architecture.infer(shapes).shapes() == made.architecture.shapes()


@pytest.mark.parametrize("name", ["small_like", "untied_emb"])
def test_two_networks_taken_apart_go_together_again(name):
    both = read(name)
    parts = [weights.select(both, network) for network in weights.NETWORKS]
    for part in parts:
        check(part)
        assert {n.partition("/")[0] for n in part.arrays} <= {
            "electra",
            "discriminator_predictions",
            "generator_predictions",
            "global_step",
        }
    again = weights.merge(*parts)
    assert again.architecture == both.architecture
    assert again.arrays.keys() == both.arrays.keys()
    for key, array in both.arrays.items():
        assert again.arrays[key] is array


def test_equal_encoders_become_one():
    both = read("small_like")
    one = weights.select(both, "discriminator")
    mlm = read("bert_mlm")  # of the same sizes
    arrays = {n: a for n, a in mlm.arrays.items() if n.startswith("gen")}
    arrays |= {n: a for n, a in one.arrays.items() if n.startswith("electra")}
    other = dataclasses.replace(mlm, arrays=arrays)
    made = weights.merge(one, other)
    check(made)
    assert made.architecture.generator_sharing == "all"


def test_an_encoder_alone_has_no_head():
    alone = weights.select(read("small_like"), "encoder")
    check(alone)
    assert alone.architecture.heads == ()
    assert {n.partition("/")[0] for n in alone.arrays} == {
        "electra",
        "global_step",
    }


def test_a_network_that_is_not_there_is_refused():
    with pytest.raises(UserError, match="must hold a discriminator.*generator"):
        weights.select(read("bert_mlm"), "discriminator")


def test_other_tables_are_refused():
    both = read("small_like")
    parts = [weights.select(both, network) for network in weights.NETWORKS]
    arrays = dict(parts[1].arrays)
    table = "electra/embeddings/word_embeddings"
    arrays[table] = arrays[table] + 1
    other = dataclasses.replace(parts[1], arrays=arrays)
    with pytest.raises(UserError, match="same embeddings.*--network"):
        weights.merge(parts[0], other)


def test_an_equal_table_of_words_alone_is_shared():
    both = read("small_like")
    parts = [weights.select(both, network) for network in weights.NETWORKS]
    arrays = dict(parts[1].arrays)
    changed = "electra/embeddings/LayerNorm/beta"
    arrays[changed] = np.ones(16, np.float32)
    parts[1] = dataclasses.replace(parts[1], arrays=arrays)
    made = weights.merge(*parts)
    check(made)
    assert made.architecture.generator_sharing == "token_embeddings"
    for part, network in zip(parts, weights.NETWORKS, strict=True):
        again = weights.select(made, network)
        assert again.arrays.keys() == part.arrays.keys()
        for name, array in part.arrays.items():
            np.testing.assert_array_equal(again.arrays[name], array)


def disentangled():
    """Returns weights with a difference for each table of "small_like"."""
    both, rng = read("small_like"), np.random.default_rng(0)
    arrays = {}
    for name, array in both.arrays.items():
        head, _, tail = name.partition("electra/embeddings/")
        if head or not tail:
            arrays[name] = array
            continue
        arrays[f"generator/embeddings/{tail}"] = array
        table, *slot = tail.split("/")
        if table != "LayerNorm":
            tail = "/".join([f"{table}_difference", *slot])
        random = rng.normal(size=array.shape).astype(np.float32)
        arrays[f"electra/embeddings/{tail}"] = random
    found = architecture.infer({n: a.shape for n, a in arrays.items()})
    return dataclasses.replace(both, arrays=arrays, architecture=found)


def test_a_discriminator_of_differences_comes_out_with_sums():
    both = disentangled()
    check(both)
    assert both.architecture.generator_sharing == "gradient_disentangled"
    discriminator, encoder, generator = (
        weights.select(both, network)
        for network in ("discriminator", "encoder", "generator")
    )
    for table in architecture.TABLES:
        name = f"electra/embeddings/{table}"
        base = both.arrays[f"generator/embeddings/{table}"]
        difference = both.arrays[f"{name}_difference"]
        np.testing.assert_array_equal(generator.arrays[name], base)
        for made in (discriminator, encoder):
            check(made)
            np.testing.assert_array_equal(made.arrays[name], base + difference)
            slot = both.arrays[f"{name}_difference/adam_v"]
            np.testing.assert_array_equal(made.arrays[f"{name}/adam_v"], slot)
    check(generator)


def test_differences_of_new_words_are_the_mean_difference():
    both = disentangled()
    made, _ = weights.resize_vocabulary(both, 600)
    made, _ = weights.resize_positions(made, 100)
    check(made)
    name = "electra/embeddings/word_embeddings_difference"
    old, new = both.arrays[name], made.arrays[name]
    np.testing.assert_array_equal(new[:512], old)
    np.testing.assert_allclose(new[512:] - old.mean(0), 0, atol=1e-6)
    assert not made.arrays[f"{name}/adam_m"][512:].any()


def test_known_words_keep_rows_and_slots():
    old = Vocabulary((*tiny.SPECIALS, *(f"w{i}" for i in range(507))))
    both = read("small_like", vocabulary=old)
    arrays = dict(both.arrays)
    table = "electra/embeddings/word_embeddings"
    arrays[f"{table}/adam_v"] = np.arange(512 * 16.0).reshape(512, 16)
    both = dataclasses.replace(both, arrays=arrays)
    new = Vocabulary((*tiny.SPECIALS, "new", "w7", "w2", "newer"))
    made, resizing = weights.resize_vocabulary(both, 12, new)
    check(made)
    assert resizing == (7, 5, 505)
    assert made.vocabulary == new
    rows = [0, 1, 2, 3, 4, 12, 7]
    kept = [0, 1, 2, 3, 4, 6, 7]
    bias = "generator_predictions/output_bias"
    for name in (table, f"{table}/adam_v", bias):
        np.testing.assert_array_equal(
            made.arrays[name][kept], arrays[name][rows]
        )
        assert made.arrays[name].dtype == arrays[name].dtype
    fresh = [5, 8, 9, 10, 11]
    assert not made.arrays[f"{table}/adam_v"][fresh].any()
    np.testing.assert_allclose(made.arrays[bias][fresh], arrays[bias].mean())
    noise = made.arrays[table][fresh] - arrays[table].mean(0)
    assert 0.01 < noise.std() < 0.03
    assert np.abs(noise).max() <= 0.04 + 1e-6


def test_unknown_words_keep_their_numbers():
    made, resizing = weights.resize_vocabulary(read("bert_mlm"), 600)
    check(made)
    assert resizing == (512, 88, 0)
    made, resizing = weights.resize_vocabulary(made, 100)
    assert resizing == (100, 0, 500)
    name = "electra/embeddings/word_embeddings"
    np.testing.assert_array_equal(
        made.arrays[name], read("bert_mlm").arrays[name][:100]
    )


def test_the_same_seed_gives_the_same_rows():
    one, two, other = (
        weights.resize_vocabulary(read("bert_mlm"), 600, seed=seed)[0]
        for seed in (1, 1, 2)
    )
    name = "electra/embeddings/word_embeddings"
    np.testing.assert_array_equal(one.arrays[name], two.arrays[name])
    assert (one.arrays[name] != other.arrays[name]).any()


def test_too_few_rows_for_the_words_are_refused():
    with pytest.raises(UserError, match="at least 60.*vocab_size=50"):
        weights.resize_vocabulary(read("bert_mlm"), 50, tiny.VOCABULARY)


def test_new_positions_repeat_the_old():
    both = read("untied_emb")
    made, resizing = weights.resize_positions(both, 700)
    check(made)
    assert resizing == (512, 188, 0)
    for scope in ("electra", "generator"):
        name = f"{scope}/embeddings/position_embeddings"
        table = made.arrays[name]
        np.testing.assert_array_equal(table[:512], both.arrays[name])
        np.testing.assert_array_equal(table[512:], both.arrays[name][:188])
        assert not made.arrays[f"{name}/adam_m"][512:].any()


def test_slots_come_and_go():
    bare = weights.without_slots(read("small_like"))
    assert not any("adam" in name for name in bare.arrays)
    check(weights.with_slots(bare))
