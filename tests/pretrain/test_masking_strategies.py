"""Each strategy against a plain loop over words, and against frequencies."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.config.masking import MaskingConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.masking_strategies import STRATEGIES
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.random_keys import Purpose, draw
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

PAD, UNK, CLS, SEP, MASK = range(5)
SIZE = 300
# A third of the pieces continue a word; counts follow Zipf's law.
PIECES = (f"##p{i}" if i % 3 == 0 else f"p{i}" for i in range(SIZE - 5))
VOCABULARY = Vocabulary(
    (*tiny.SPECIALS, *PIECES),
    counts=tuple(10_000 // (i + 1) for i in range(SIZE)),
)
CONTINUES = np.array([x.startswith("##") for x in VOCABULARY.tokens])
NAMES = tuple(STRATEGIES)
WORD_STRATEGIES = ("whole_word", "ngram", "span")


def _config(strategy, **leaves):
    return MaskingConfig(masking_strategy=strategy, **leaves)


def _batch(num_rows, length, *, full=False, words=False, seed=0):
    """Returns rows of [CLS] pieces [SEP] pieces [SEP], some with a [MASK].

    Args:
      num_rows: B.
      length: L.
      full: whether all rows have L tokens.
      words: whether each piece is a word.
      seed: of the pieces.
    """
    rng = np.random.default_rng(seed)
    pieces = np.flatnonzero(~CONTINUES)[5:] if words else np.arange(5, SIZE)
    ids = rng.choice(pieces, (num_rows, length))
    sizes = rng.integers(4, length + 1, num_rows)
    sizes[0] = length
    if full:
        sizes[:] = length
    else:
        ids[rng.random(ids.shape) < 0.02] = MASK
    columns = np.arange(length)
    ids[:, 0] = CLS
    ids[columns == sizes[:, None] // 2] = SEP
    ids[columns == sizes[:, None] - 1] = SEP
    mask = columns < sizes[:, None]
    arrays = (ids * mask, mask, np.zeros_like(ids))
    return Inputs(*(tf.constant(x.astype(np.int32)) for x in arrays))


def _inputs(ids):
    """Returns rows of these ids, padding where they are 0."""
    return Inputs(*(tf.constant(x) for x in (ids, (ids > 0) * 1, ids * 0)))


def _keys(num_rows, step=0):
    return seeds.row_keys(1, tf.constant(step), tf.range(num_rows))


def _mask(inputs, config, keys=None, vocabulary=VOCABULARY):
    if keys is None:
        keys = _keys(len(inputs.input_ids))
    return pretrain_helpers.mask(
        inputs, config, vocabulary=vocabulary, keys=keys
    )


def _assert_equal(found, expected):
    tf.nest.map_structure(np.testing.assert_array_equal, found, expected)


def _words(ids, candidates):
    """Returns the positions of each word, in a list for each run of words."""
    runs = []
    for t in np.flatnonzero(candidates):
        if not t or not candidates[t - 1]:
            runs.append([[t]])
        elif CONTINUES[ids[t]]:
            runs[-1][-1].append(t)
        else:
            runs[-1].append([t])
    return runs


def _budget(inputs, config):
    length = inputs.input_ids.shape[1]
    sizes = inputs.input_mask.numpy().sum(1).astype(np.float32)
    most = config.max_predictions_per_seq(length)
    return np.clip(np.round(sizes * np.float32(config.mask_prob)), 1, most)


def test_strategies_are_those_of_the_flag():
    (field,) = (
        field
        for field in dataclasses.fields(MaskingConfig)
        if field.name == "masking_strategy"
    )
    assert field.metadata["choices"] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_share_of_chosen_tokens_is_mask_prob(name):
    for prob, length in itertools.product((0.15, 0.4), (64, 128)):
        inputs = _batch(200, length, full=True)
        masked = _mask(inputs, _config(name, mask_prob=prob))
        assert abs(masked.weights.numpy().mean() - 1) < 0.05
        assert abs(tiny.chosen(masked).mean() - prob) < 0.01


@pytest.mark.parametrize("name", NAMES)
def test_the_budget_is_never_exceeded(name):
    inputs, config = _batch(300, 40), _config(name)
    chosen = _mask(inputs, config).weights.numpy().sum(1)
    budget = np.minimum(_budget(inputs, config), tiny.candidates(inputs).sum(1))
    assert (chosen <= budget).all()
    if name not in ("whole_word", "ngram"):
        np.testing.assert_array_equal(chosen, budget)


@pytest.mark.parametrize("name", NAMES)
def test_only_candidates_are_chosen_and_each_once(name):
    inputs = _batch(300, 40)
    masked = _mask(inputs, _config(name, mask_prob=0.5))
    chosen = tiny.chosen(masked)
    assert not chosen[~tiny.candidates(inputs)].any()
    assert chosen.sum() == masked.weights.numpy().sum()
    np.testing.assert_array_equal(
        masked.inputs.input_ids.numpy()[~chosen],
        inputs.input_ids.numpy()[~chosen],
    )
    used = masked.weights.numpy() > 0
    rows, slots = np.nonzero(used)
    ids = inputs.input_ids.numpy()[rows, masked.positions.numpy()[rows, slots]]
    np.testing.assert_array_equal(masked.ids.numpy()[used], ids)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_without_candidates_chooses_nothing(name):
    ids = np.zeros((3, 32), np.int32)
    ids[0, :2] = CLS, SEP
    ids[1, :] = SEP
    inputs = _inputs(ids)
    masked = _mask(inputs, _config(name))
    assert not masked.weights.numpy().any()
    np.testing.assert_array_equal(masked.inputs.input_ids, ids)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_full_of_candidates_needs_no_special_tokens(name):
    ids = np.full((2, 32), 6, np.int32)
    inputs = _inputs(ids)
    masked = _mask(inputs, _config(name, mask_prob=0.5))
    assert (masked.weights.numpy().sum(1) == 16).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_masked_by_its_key_alone(name):
    inputs, keys, config = _batch(24, 40), _keys(24), _config(name)
    whole = _mask(inputs, config, keys)
    others = np.random.default_rng(0).permutation(24)[:7]
    part = Inputs(*(tf.gather(x, others) for x in inputs))
    alone = _mask(part, config, tf.gather(keys, others))
    gathered = tf.nest.map_structure(lambda x: tf.gather(x, others), whole)
    _assert_equal(alone, gathered)
    again = _mask(inputs, config, _keys(24, step=1))
    assert (tiny.chosen(again) != tiny.chosen(whole)).any()


@pytest.mark.parametrize("name", NAMES)
def test_documents_that_share_a_row_share_its_budget_and_no_group(name):
    """[SEP] already ends groups, so document numbers change nothing."""
    inputs, config = _batch(100, 40), _config(name, mask_prob=0.3)
    numbers = tf.cumsum(tf.cast(inputs.input_ids == SEP, tf.int32), axis=1)
    packed = inputs._replace(input_mask=inputs.input_mask * (1 + numbers))
    assert int(tf.reduce_max(packed.input_mask)) > 1
    ours, theirs = _mask(packed, config), _mask(inputs, config)
    np.testing.assert_array_equal(ours.positions, theirs.positions)
    np.testing.assert_array_equal(ours.weights, theirs.weights)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_xla_chooses_the_same(name):
    inputs, config = _batch(24, 40), _config(name)
    compiled = tf.function(
        lambda: _mask(inputs, config), autograph=False, jit_compile=True
    )()
    _assert_equal(compiled, _mask(inputs, config))


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_takes_any_number_of_rows(name):
    spec = Inputs(*(tf.TensorSpec([None, 40], tf.int32) for _ in range(3)))
    function = tf.function(
        lambda inputs, keys: _mask(inputs, _config(name), keys),
        input_signature=[spec, tf.TensorSpec([None], tf.uint32)],
        autograph=False,
    )
    inputs = _batch(5, 40)
    np.testing.assert_array_equal(
        function(inputs, _keys(5)).positions,
        _mask(inputs, _config(name)).positions,
    )


@pytest.mark.parametrize("name", NAMES)
def test_draws_can_be_given_in_place_of_keys(name):
    inputs, keys, config = _batch(8, 40), _keys(8), _config(name)
    shape = (2, 40) if name in ("ngram", "span") else (40,)
    shapes = {Purpose.MASK_POSITIONS: shape, Purpose.MASK_CONTENT: (6,)}
    draws = {p: draw(keys, p, shapes[p]) for p in shapes}
    _assert_equal(_mask(inputs, config, draws), _mask(inputs, config, keys))


def _tile_sizes(name, draws):
    """Converts uniform numbers to sizes of n-grams or spans."""
    shares = {"ngram": 1 / np.arange(1, 4), "span": 0.2 * 0.8 ** np.arange(10)}[
        name
    ]
    ends = np.cumsum(shares / shares.sum())
    return 1 + np.searchsorted(ends[:-1].astype(np.float32), draws, "right")


def _groups(name, runs, draws):
    """Groups words; returns (index of the group's random number, words)."""
    if name == "whole_word":
        return enumerate([word] for run in runs for word in run)
    sizes = _tile_sizes(name, draws)
    tiles = np.repeat(np.arange(len(sizes)), sizes)
    groups, num_units = {}, 0
    for number, run in enumerate(runs):
        for word in run:
            groups.setdefault(tiles[num_units] + number, []).append(word)
            num_units += len(word) if name == "span" else 1
    return groups.items()


def _choose_groups(name, groups, order, budget):
    """Goes through groups by falling `order`; returns chosen positions."""
    selected = []
    for _, words in sorted(groups, key=lambda group: -order[group[0]]):
        items = [[t] for word in words for t in word]
        for item in items if name == "span" else words:
            if len(selected) + len(item) <= budget:
                selected += item
    return selected


@pytest.mark.parametrize("prob", [0.15, 0.4])
@pytest.mark.parametrize("name", WORD_STRATEGIES)
def test_groups_are_those_of_a_plain_loop(name, prob):
    inputs, keys = _batch(100, 60), _keys(100)
    config = _config(name, mask_prob=prob)
    shape = (60,) if name == "whole_word" else (2, 60)
    draws = draw(keys, Purpose.MASK_POSITIONS, shape).numpy()
    chosen = tiny.chosen(_mask(inputs, config, keys))
    candidates, budget = tiny.candidates(inputs), _budget(inputs, config)
    for row, ids in enumerate(inputs.input_ids.numpy()):
        order, sizes = (draws[row], None)
        if name != "whole_word":
            order, sizes = draws[row]
        groups = _groups(name, _words(ids, candidates[row]), sizes)
        expected = np.zeros(60, bool)
        expected[_choose_groups(name, groups, order, budget[row])] = True
        np.testing.assert_array_equal(chosen[row], expected)


@pytest.mark.parametrize("name", ["whole_word", "ngram"])
def test_words_are_chosen_as_a_whole_or_not_at_all(name):
    inputs = _batch(200, 64)
    chosen = tiny.chosen(_mask(inputs, _config(name, mask_prob=0.3)))
    candidates = tiny.candidates(inputs)
    num_longer = 0
    for row, ids in enumerate(inputs.input_ids.numpy()):
        for word in itertools.chain(*_words(ids, candidates[row])):
            assert chosen[row, word].all() or not chosen[row, word].any()
            num_longer += len(word) > 1 and chosen[row, word[0]]
    assert num_longer > 100


def test_a_word_longer_than_the_budget_is_passed_over():
    ids = np.array([[CLS, 6, *[5] * 12, 9, SEP]], np.int32)  # 13 and 1 long
    ids[0, 2] = 5
    assert CONTINUES[5] and not CONTINUES[[6, 9]].any()
    inputs = _inputs(ids)
    masked = _mask(inputs, _config("whole_word", mask_prob=0.5))
    positions = masked.positions.numpy()[masked.weights.numpy() > 0]
    assert positions.tolist() == [14]


def _runs_of(chosen):
    """Returns the lengths of the runs of True in each row."""
    edges = np.diff(np.pad(chosen, ((0, 0), (1, 1))).astype(int))
    return np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)


def test_every_span_begins_at_a_word():
    inputs = _batch(200, 128)
    chosen = tiny.chosen(_mask(inputs, _config("span")))
    begins = chosen & ~np.pad(chosen, ((0, 0), (1, 0)))[:, :-1]
    before = np.pad(tiny.candidates(inputs), ((0, 0), (1, 0)))[:, :-1]
    within_word = CONTINUES[inputs.input_ids.numpy()] & before
    assert begins.sum() > 500
    assert not (begins & within_word).any()


def test_spans_are_few_and_long():
    inputs = _batch(300, 512, full=True, words=True)
    config = _config("span", mask_prob=0.05)  # spans that touch are rare
    chosen = tiny.chosen(_mask(inputs, config))
    lengths = _runs_of(chosen)
    # The last of seven spans is cut, and special tokens cut some.
    assert 3.2 < lengths.mean() < 4.0
    uniform = tiny.chosen(_mask(inputs, MaskingConfig(mask_prob=0.05)))
    assert _runs_of(uniform).mean() < 1.1


def test_lengths_of_ngrams_have_shares_of_one_over_n():
    inputs = _batch(600, 512, full=True, words=True)
    config = _config("ngram", mask_prob=0.03)  # n-grams that touch are rare
    lengths = _runs_of(tiny.chosen(_mask(inputs, config)))
    shares = np.bincount(lengths, minlength=5)[1:] / len(lengths)
    expected = np.array([6, 3, 2]) / 11  # 1, 1/2, 1/3
    np.testing.assert_allclose(shares[:3], expected, atol=0.035)
    assert shares[3:].sum() < 0.03


def test_max_ngram_1_chooses_words():
    inputs = _batch(50, 512, full=True, words=True)
    config = _config("ngram", mask_prob=0.03, max_ngram=1)
    assert _runs_of(tiny.chosen(_mask(inputs, config))).mean() < 1.06


@pytest.mark.parametrize("name", ["uniform", *WORD_STRATEGIES])
def test_every_place_is_about_equally_likely(name):
    inputs = _batch(3000, 64, full=True)
    frequency = tiny.chosen(_mask(inputs, _config(name))).mean(0)
    frequency = np.delete(frequency, [0, 32, 63])
    assert frequency.min() > 0.75 * frequency.mean()
    # Spans crowd at the row's start.
    assert frequency.max() < 1.4 * frequency.mean()


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.5])
def test_unigram_draws_in_proportion_to_a_power_of_the_count(alpha):
    row = np.array([CLS, 6, 10, 40, 40, 100, 250, 299, SEP] + [PAD] * 7)
    ids = np.tile(row, (20_000, 1)).astype(np.int32)
    inputs = _inputs(ids)
    config = _config("unigram", mask_prob=0.4, unigram_alpha=alpha)
    masked = _mask(inputs, config)
    assert (masked.weights.numpy().sum(1) == 4).all()
    weights = np.array(VOCABULARY.counts)[row[1:8]] ** -alpha
    weights /= weights.sum()
    first = np.bincount(masked.positions.numpy()[:, 0], minlength=16)
    np.testing.assert_allclose(first[1:8] / 20_000, weights, atol=0.012)
    rng = np.random.default_rng(0)
    frequency = np.zeros(7)
    for _ in range(8000):
        frequency[rng.choice(7, 4, replace=False, p=weights)] += 1 / 8000
    chosen = tiny.chosen(masked).mean(0)
    np.testing.assert_allclose(chosen[1:8], frequency, atol=0.025)


def test_unigram_chooses_rare_pieces_that_the_data_never_had():
    counts = tuple(0 if i == 7 else 3 for i in range(SIZE))
    vocabulary = dataclasses.replace(VOCABULARY, counts=counts)
    ids = np.array([[CLS, 6, 7, 8, SEP]] * 2000, np.int32)
    inputs = _inputs(ids)
    config = _config("unigram", mask_prob=0.2, unigram_alpha=1.0)
    masked = _mask(inputs, config, vocabulary=vocabulary)
    frequency = tiny.chosen(masked).mean(0)
    np.testing.assert_allclose(frequency[2], 3 / 5, atol=0.03)


def test_unigram_without_counts_is_refused():
    vocabulary = Vocabulary(VOCABULARY.tokens)
    with pytest.raises(UserError, match="without counts"):
        _mask(_batch(2, 40), _config("unigram"), vocabulary=vocabulary)
