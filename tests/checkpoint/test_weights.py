"""Networks are inferred, selected and merged without losing weights."""

import dataclasses
import json

import golden_arrays
import numpy as np
import pytest
import tiny
from golden_weights import check, disentangled, read

from electra_tf.checkpoint import architecture, weights
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

LISTING = golden_arrays.FULL / "model/real_sizes_variables.json"
SHAPES = {
    name: array.shape
    for name, array in np.load(
        golden_arrays.HERE / "golden/model/small_like_vars.npz"
    ).items()
    if name != "global_step"
}


def listings():
    return json.loads(LISTING.read_text()) if LISTING.exists() else {}


def with_slots(shapes):
    slots = {
        f"{n}/{s}": x for n, x in shapes.items() for s in ("adam_m", "adam_v")
    }
    return {**shapes, **slots, "global_step": ()}


@pytest.mark.parametrize("name", listings())
def test_sizes_of_every_original_model_are_inferred(name):
    shapes = {n: tuple(x) for n, x, _ in listings()[name]["variables"]}
    inferred = architecture.infer(shapes)
    assert inferred.shapes() == shapes
    heads = inferred.encoder.num_attention_heads
    assert heads == {"small": 4, "base_": 12, "base": 12, "large": 16}[name[:5]]


def test_flags_say_that_networks_share_all_their_weights():
    shapes = {n: x for n, x in SHAPES.items() if n.split("/")[0] != "generator"}
    shapes["generator_predictions/dense/kernel"] = (32, 16)
    flags = architecture.size_flags(architecture.infer(shapes))
    assert flags["generator_sharing"] == "all" and "objective" not in flags


LAYER = "electra/encoder/layer_1/output/dense/kernel"


@pytest.mark.parametrize(
    "change",
    [
        {LAYER: None},
        {LAYER: (64, 31)},
        {"electra/pooler": (1,)},
        {f"{LAYER}/adam_m": None},
        {"x/adam_v": (2,)},
        {"electra/embeddings/word_embeddings": None},
        {"generator/encoder/layer_3/output/dense/bias": (8,)},
    ],
    ids=str,
)
def test_variables_that_fit_no_architecture_are_refused(change):
    shapes = with_slots(SHAPES) | change
    shapes = {key: shape for key, shape in shapes.items() if shape is not None}
    with pytest.raises(UserError):
        architecture.infer(shapes)


def test_equal_encoders_become_one():
    both = read("small_like")
    one = weights.select(both, "discriminator")
    mlm = read("bert_mlm")  # of the same sizes
    arrays = {n: a for n, a in mlm.arrays.items() if n.startswith("gen")}
    arrays |= {n: a for n, a in one.arrays.items() if n.startswith("electra")}
    other = dataclasses.replace(mlm, arrays=arrays)
    result = weights.merge(one, other)
    check(result)
    assert result.architecture.generator_sharing == "all"


def _alone(network):
    """Returns a network of "small_like"."""
    return weights.select(read("small_like"), network)


def _with(loaded, **arrays):
    return dataclasses.replace(loaded, arrays={**loaded.arrays, **arrays})


@pytest.mark.parametrize(
    ("changed", "sharing"),
    [
        ("LayerNorm/beta", "token_and_position_embeddings"),
        ("position_embeddings", "token_embeddings"),
    ],
)
def test_equal_tables_are_shared_though_others_differ(changed, sharing):
    main, generator = _alone("discriminator"), _alone("generator")
    name = f"electra/embeddings/{changed}"
    ones = np.ones_like(generator.arrays[name])
    result = weights.merge(main, _with(generator, **{name: ones}))
    check(result)
    assert result.architecture.generator_sharing == sharing
    restored = weights.select(result, "generator").arrays
    assert restored.keys() == generator.arrays.keys()
    for key, array in (generator.arrays | {name: ones}).items():
        np.testing.assert_array_equal(restored[key], array)


def test_a_disentangled_discriminator_is_selected_with_summed_tables():
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
        for result in (discriminator, encoder):
            check(result)
            np.testing.assert_array_equal(
                result.arrays[name], base + difference
            )
            slot = both.arrays[f"{name}_difference/adam_v"]
            np.testing.assert_array_equal(result.arrays[f"{name}/adam_v"], slot)
    check(generator)


WORDS = Vocabulary((*tiny.SPECIALS, *(f"w{i}" for i in range(507))))


def test_differences_of_new_words_are_the_mean_difference():
    original = disentangled()
    resized, _ = weights.resize_vocabulary(original, 600)
    resized, _ = weights.resize_positions(resized, 100)
    check(resized)
    name = "electra/embeddings/word_embeddings_difference"
    old, new = original.arrays[name], resized.arrays[name]
    np.testing.assert_array_equal(new[:512], old)
    np.testing.assert_allclose(new[512:] - old.mean(0), 0, atol=1e-6)
    assert not resized.arrays[f"{name}/adam_m"][512:].any()


def test_known_words_keep_rows_and_slots():
    table = "electra/embeddings/word_embeddings"
    slot = np.arange(512 * 16.0).reshape(512, 16)
    original = read("small_like", vocabulary=WORDS)
    original = _with(original, **{f"{table}/adam_v": slot})
    new = Vocabulary((*tiny.SPECIALS, "new", "w7", "w2", "newer"))
    resized, counts = weights.resize_vocabulary(original, 12, new)
    check(resized)
    assert counts.startswith("Word embeddings: 7 rows kept, 5 new, 505")
    assert resized.vocabulary == new
    rows, kept = [0, 1, 2, 3, 4, 12, 7], [0, 1, 2, 3, 4, 6, 7]
    bias = "generator_predictions/output_bias"
    arrays = original.arrays
    for name in (table, f"{table}/adam_v", bias):
        found = resized.arrays[name]
        np.testing.assert_array_equal(found[kept], arrays[name][rows])
        assert found.dtype == arrays[name].dtype
    new_rows = [5, 8, 9, 10, 11]
    assert not resized.arrays[f"{table}/adam_v"][new_rows].any()
    np.testing.assert_allclose(
        resized.arrays[bias][new_rows], arrays[bias].mean()
    )
    noise = resized.arrays[table][new_rows] - arrays[table].mean(0)
    assert 0.01 < noise.std() < 0.03 and np.abs(noise).max() <= 0.04 + 1e-6


def test_words_keep_their_ids_without_a_vocabulary():
    resized, _ = weights.resize_vocabulary(read("bert_mlm"), 600)
    check(resized)
    known = dataclasses.replace(resized, vocabulary=WORDS)
    resized, _ = weights.resize_vocabulary(known, 100)
    assert resized.vocabulary.tokens == WORDS.tokens[:100]
    name = "electra/embeddings/word_embeddings"
    np.testing.assert_array_equal(
        resized.arrays[name], read("bert_mlm").arrays[name][:100]
    )


def test_new_positions_repeat_the_old():
    original = read("untied_emb")
    resized, _ = weights.resize_positions(original, 700)
    check(resized)
    for scope in ("electra", "generator"):
        name = f"{scope}/embeddings/position_embeddings"
        old, table = original.arrays[name], resized.arrays[name]
        np.testing.assert_array_equal(table, np.concatenate([old, old[:188]]))
        assert not resized.arrays[f"{name}/adam_m"][512:].any()


def test_the_lowest_layers_keep_weights_and_slots():
    original = weights.select(read("untied_emb"), weights.ENCODER)
    top = original.architecture.encoder.num_hidden_layers - 1
    kept = weights.keep_layers(original, top)
    check(kept)
    expected = {
        name: array
        for name, array in original.arrays.items()
        if not name.startswith(f"electra/encoder/layer_{top}/")
    }
    assert kept.arrays.keys() == expected.keys() < original.arrays.keys()
    assert all(kept.arrays[x] is array for x, array in expected.items())


def test_what_cannot_be_selected_merged_or_resized_is_refused():
    main, generator = _alone("discriminator"), _alone("generator")
    mlm, (longer, _) = read("bert_mlm"), weights.resize_positions(main, 1024)
    table = "electra/embeddings/word_embeddings"
    other = _with(generator, **{table: generator.arrays[table] + 1})
    pieces = dataclasses.replace(tiny.VOCABULARY, sentencepiece=b"model")
    for call in (
        lambda: weights.merge(generator, main),
        lambda: weights.merge(main, main),
        lambda: weights.merge(longer, generator),
        lambda: weights.merge(main, other),  # other embeddings, another width
        lambda: weights.select(mlm, "discriminator"),
        lambda: weights.keep_layers(weights.select(mlm, weights.ENCODER), 99),
        lambda: weights.resize_vocabulary(mlm, 50, tiny.VOCABULARY),
        lambda: weights.resize_vocabulary(
            dataclasses.replace(mlm, vocabulary=pieces), 50
        ),
    ):
        with pytest.raises(UserError):
            call()
