"""The encoder: masks, packing, shifts, recomputation, precision, sharing."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.config.model import TABLES
from electra_tf.model import neighbour_attention
from electra_tf.model.modeling import (
    BertModel,
    DisentangledEmbeddings,
    Embeddings,
    recompute_blocks,
    shift_positions,
)
from electra_tf.model.two_tower import TwoTowerModel
from electra_tf.util import distribution, seeds

CONFIG = tiny.BERT
DROPOUT = dataclasses.replace(
    CONFIG, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2
)
NO_DROPOUT = dataclasses.replace(
    CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)
NEIGHBOURS = dataclasses.replace(CONFIG, attention_initializer="neighbours")
DIRECTIONS = ("both", "left_to_right", "right_to_left")


def _make(kind, *arguments, **options):
    """Makes layers whose weights depend on their shapes alone."""
    with seeds.seed_initializers(0):
        layer = kind(*arguments, **options)
        if not layer.built:
            layer.build((None, None))
    return layer


def test_one_row_of_segments_is_that_of_every_token():
    config = dataclasses.replace(NO_DROPOUT, type_vocab_size=1)
    encoder = _make(BertModel, config)
    ids, mask, _ = tiny.batch()
    first, second = (
        encoder(ids, mask, tf.fill(tf.shape(ids), segment)).sequence_output
        for segment in (0, 1)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("num_positions", [16, 40])
def test_rotations_shift_nearly_orthogonal_positions(num_positions):
    waves = neighbour_attention.frequencies(num_positions, 16)
    table = neighbour_attention.position_table(num_positions, waves)
    np.testing.assert_allclose(np.mean(table**2, 1), 1.0)
    products = table @ table.T / 16 - np.eye(num_positions)
    assert np.abs(products).max() < 0.9 and np.abs(products).mean() < 0.3
    for shift in (-2, -1, 1, 3):
        rotated = table @ neighbour_attention.rotation(waves, shift).T
        np.testing.assert_allclose(
            rotated[3:10], table[3 + shift : 10 + shift], atol=1e-9
        )


def test_all_random_numbers_of_a_row_have_keys_of_their_own(monkeypatch):
    drawn, draw = [], seeds.random_bits

    def record(keys, shape):
        drawn.extend(keys.numpy().tolist())
        return draw(keys, shape)

    monkeypatch.setattr(seeds, "random_bits", record)
    encoder = BertModel(DROPOUT)
    shift_positions(encoder, tiny.LENGTH + 8)
    encoder(*tiny.batch(), keys=tiny.KEYS)
    # The shift, the embeddings, and three places of each layer.
    num_places = 2 + 3 * CONFIG.num_hidden_layers
    assert len(drawn) == len({*drawn}) == 8 * num_places


def _started_at(encoder, inputs, start):
    """Returns the states of rows whose first token is at position `start`."""
    table = encoder.embeddings.position_embeddings
    value = table.numpy()
    table.assign(np.roll(value, -start, axis=0))
    states = encoder(*inputs).sequence_output.numpy()
    table.assign(value)
    return states


@pytest.mark.parametrize("is_packed", [False, True])
def test_shifted_rows_start_wherever_they_end_before_the_limit(is_packed):
    encoder = _make(BertModel, NO_DROPOUT, is_packed=is_packed)
    make = tiny.packed_batch if is_packed else tiny.batch
    inputs, length = make(num_rows=64), tiny.LENGTH
    keys = seeds.row_keys(0, tf.constant(0), tf.range(64))
    shift_positions(encoder, length + 3)
    expected = [_started_at(encoder, inputs, start) for start in range(5)]
    states = encoder(*inputs, keys=keys).sequence_output.numpy()
    real = inputs.input_mask.numpy()[..., np.newaxis] > 0
    errors = [np.abs((x - states) * real).max((1, 2)) for x in expected]
    assert (np.min(errors, 0) < 1e-5).all()
    assert {*np.argmin(errors, 0)} == {0, 1, 2, 3}


def test_initial_weights_follow_the_original():
    config = dataclasses.replace(
        CONFIG, hidden_size=128, initializer_range=0.02
    )
    for variable in _make(BertModel, config).weights:
        value = variable.numpy()
        if variable.path.endswith(("bias", "beta")):
            assert (value == 0).all()
        elif variable.path.endswith("gamma"):
            assert (value == 1).all()
        elif "project" in variable.path:  # Glorot uniform
            limit = math.sqrt(6 / (8 + 128))
            assert 0.9 * limit < np.abs(value).max() <= limit
        else:  # normal, cut at two standard deviations
            assert np.abs(value).max() <= 0.04 + 1e-6
            assert 0.015 < value.std() < 0.02


# Attention to neighbours has logits of up to 64. Products of 16, 16 and 4 terms
# round a logit by some 6 units of 64 * 2**-24, depending on the machine and the
# length of the row; probabilities, and so states of size 1, are off by as much
# in each of two layers.
ROUNDING = 2 * 6 * 64 * 2**-24


def _alone(inputs):
    """Yields row, columns and inputs of each document of packed rows."""
    numbers = inputs.input_mask.numpy()
    for row in range(len(numbers)):
        for number in range(1, numbers[row].max() + 1):
            columns = np.flatnonzero(numbers[row] == number)
            ids, _, segments = (
                x.numpy()[row : row + 1, columns] for x in inputs
            )
            yield row, columns, (ids, np.ones_like(ids), segments)


@pytest.mark.parametrize("config", [CONFIG, NEIGHBOURS])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_packed_document_has_the_states_that_it_has_alone(config, direction):
    plain, packed = (
        _make(BertModel, config, direction=direction, is_packed=is_packed)
        for is_packed in (False, True)
    )
    inputs = tiny.packed_batch(3)
    output = packed(*inputs)
    for row, columns, document in _alone(inputs):
        alone = plain(*document)
        for found, expected in zip(
            [output.embedding_output, *output.all_layers],
            [alone.embedding_output, *alone.all_layers],
            strict=True,
        ):
            found = found.numpy()[row, columns]
            np.testing.assert_allclose(found, expected[0], atol=ROUNDING)


def test_two_towers_predict_a_documents_words_as_if_it_were_alone():
    plain, packed = (
        _make(TwoTowerModel, CONFIG, is_packed=x) for x in (False, True)
    )
    inputs = tiny.packed_batch(3)
    states = packed(*inputs).numpy()
    for row, columns, document in _alone(inputs):
        alone, found = plain(*document).numpy()[0], states[row, columns]
        # Neither [CLS] nor [SEP] is ever predicted.
        np.testing.assert_allclose(found[1:-1], alone[1:-1], atol=1e-5)
        # The ends do not depend on neighbours in the row.
        np.testing.assert_allclose(found[0, 16:], alone[0, 16:], atol=1e-5)
        np.testing.assert_allclose(found[-1, :16], alone[-1, :16], atol=1e-5)
        if len(columns) < tiny.LENGTH:
            assert not found[0, :16].any() and not found[-1, 16:].any()


@pytest.mark.parametrize("position", [1, 6, tiny.LENGTH - 2])
def test_towers_predict_a_token_from_all_others_but_itself(position):
    """[CLS] and the last [SEP] are not predicted: there states roll around."""
    towers, inputs = _make(TwoTowerModel, CONFIG), tiny.batch(num_rows=1)
    ids = inputs.input_ids.numpy()
    ids[0, position] = 5 + (ids[0, position] + 1) % 50
    before, after = towers(*inputs), towers(*inputs._replace(input_ids=ids))
    is_changed = np.abs(before - after)[0].max(-1) > 1e-6
    inner = np.arange(1, tiny.LENGTH - 1)
    np.testing.assert_array_equal(is_changed[inner], inner != position)


ENCODERS = {
    "plain": (BertModel, {}),
    "packed": (BertModel, {"is_packed": True}),
    "bfloat16": (BertModel, {"dtype": "mixed_bfloat16"}),
    "towers": (TwoTowerModel, {}),
}


def _encoder(kind, *, recompute):
    cls, options = ENCODERS[kind]
    encoder = _make(cls, DROPOUT, **options)
    if recompute:
        recompute_blocks(encoder)
    return encoder


def _states_and_gradients(encoder):
    inputs = tiny.packed_batch() if encoder.is_packed else tiny.batch()
    with tf.GradientTape() as tape:
        states = encoder(*inputs, tiny.KEYS)
        states = getattr(states, "sequence_output", states)
        noise = np.random.default_rng(1).normal(size=states.shape)
        loss = tf.reduce_sum(states * noise.astype(np.float32))
    values = [v.value for v in encoder.trainable_variables]
    gradients = tape.gradient(loss, values)
    return states, [tf.convert_to_tensor(x) for x in gradients]


@pytest.mark.parametrize("kind", ENCODERS)
def test_recomputation_keeps_states_and_gradients(kind, products_in_bfloat16):
    states, expected = _states_and_gradients(_encoder(kind, recompute=False))
    recomputed, found = _states_and_gradients(_encoder(kind, recompute=True))
    np.testing.assert_allclose(recomputed, states, rtol=0, atol=1e-6)
    # A sum in bfloat16 may round to the next number; some gradients, as of key
    # biases, are 0 up to rounding.
    limit = 1e-2 if kind == "bfloat16" else 1e-6
    limit *= max(np.abs(x).max() for x in expected)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=limit)


def test_a_replica_without_rows_adds_nothing_to_the_gradient():
    encoder, ids = _encoder("plain", recompute=True), tf.zeros([0, 5], tf.int32)
    with tf.GradientTape() as tape:
        keys = tf.zeros([0], tf.uint32)
        states = encoder(ids, ids, ids, keys).sequence_output
    values = [v.value for v in encoder.trainable_variables]
    for gradient in tape.gradient(states, values):
        assert not np.any(tf.convert_to_tensor(gradient))


def _graph_of_gradients(kind, *, recompute=False):
    encoder = _encoder(kind, recompute=recompute)
    update = tf.function(
        lambda: _states_and_gradients(encoder)[1], autograph=False
    )
    return update.get_concrete_function()


@pytest.mark.parametrize("recompute", [False, True])
def test_the_backward_pass_computes_each_block_again(recompute):
    graph = _graph_of_gradients("plain", recompute=recompute).graph
    num_gelus = sum(op.type == "Erfc" for op in graph.get_operations())
    assert num_gelus == CONFIG.num_hidden_layers * (1 + recompute)


def test_only_products_are_of_bfloat16(products_in_bfloat16):
    gradients = _graph_of_gradients("bfloat16")
    products = []
    for op in gradients.graph.get_operations():
        is_rounded = tf.bfloat16 in {x.dtype for x in op.inputs}
        if op.type in {"MatMul", "BatchMatMulV2"}:
            products.append(is_rounded)
        elif is_rounded:
            moves = {"Cast", "Reshape", "Transpose", "Identity"}
            assert op.type in {*moves, "Unpack", "Pack"}, op.name
    # Forward: the embedding projection; in each layer query, key and value as
    # one, two of attention, three more. Backward: twice as many.
    assert products == [True] * 3 * (1 + 6 * CONFIG.num_hidden_layers)
    assert all(gradient.dtype == tf.float32 for gradient in gradients.outputs)


def test_bfloat16_is_float32_where_the_machine_has_none(monkeypatch):
    monkeypatch.setattr(distribution, "has_bfloat16", lambda: False)
    exact, mixed = (
        _make(BertModel, CONFIG, dtype=x) for x in ("float32", "mixed_bfloat16")
    )
    assert mixed.compute_dtype == "bfloat16"
    found, expected = (x(*tiny.batch()).sequence_output for x in (mixed, exact))
    np.testing.assert_array_equal(found, expected)


@pytest.fixture
def disentangled():
    """Returns embeddings, and those that add differences to their tables."""
    base = _make(Embeddings, CONFIG)
    own = _make(DisentangledEmbeddings, CONFIG, base)
    for difference in own.differences.values():
        rng = np.random.default_rng(0)
        difference.assign(rng.normal(size=difference.shape))
    return base, own


def test_disentangled_tables_are_base_plus_difference(disentangled):
    base, own = disentangled
    inputs, plain = tiny.batch(), _make(Embeddings, CONFIG)
    for table in TABLES:
        total = getattr(base, table).numpy() + own.differences[table].numpy()
        np.testing.assert_array_equal(getattr(own, table), total)
        getattr(plain, table).assign(total)
    found, expected = (
        layer(inputs.input_ids, inputs.segment_ids) for layer in (own, plain)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_gradient_reaches_differences_and_never_the_base(disentangled):
    base, own = disentangled
    inputs = tiny.batch()
    with tf.GradientTape() as tape:
        y = own(inputs.input_ids, inputs.segment_ids)
        loss = tf.reduce_sum(y * tf.random.stateless_normal(y.shape, [1, 2]))
        loss += tf.reduce_sum(own.word_embeddings[:3] ** 2)
    tables = [getattr(base, table).value for table in TABLES]
    differences = [own.differences[table].value for table in TABLES]
    gradients = tape.gradient(loss, [*tables, *differences])
    assert gradients[:3] == [None] * 3
    assert all(np.abs(tf.convert_to_tensor(g)).max() > 0 for g in gradients[3:])
