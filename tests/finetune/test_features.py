import numpy as np
import pytest

from electra_tf.finetune.preprocessing import EID, TOKENS, Features, FeatureSpec

SPECS = (*TOKENS, EID, FeatureSpec("targets", is_float=True))
SIZES = (3, 12, 5, 9, 2, 7, 11)


def _features():
    rows = []
    for eid, size in enumerate(SIZES):
        ids = np.arange(1, size + 1) + 100 * eid
        segments = (np.arange(size) > size // 2).astype(int)
        row = {"input_ids": ids, "segment_ids": segments}
        rows.append({**row, "eid": eid, "targets": eid / 2})
    return Features(rows, SPECS)


def _eids(features, num_steps, start_step=0, **arguments):
    steps = np.arange(start_step, num_steps)
    dataset = features.training_dataset(
        steps=steps, length=16, seed=3, **arguments
    )
    return [batch["eid"].numpy().tolist() for batch in dataset]


def test_every_row_comes_once_an_epoch_and_none_is_dropped():
    whole = _eids(_features(), batch_size=4, num_steps=7)
    epochs = np.concatenate(whole).reshape(4, 7)
    for epoch in epochs:
        assert sorted(epoch) == list(range(7))
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_a_training_can_start_at_any_step():
    features = _features()
    whole = _eids(features, batch_size=4, num_steps=6)
    for start in (1, 4, 6):
        rest = _eids(features, batch_size=4, num_steps=6, start_step=start)
        assert rest == whole[start:]


@pytest.mark.parametrize(("workers", "replicas"), [(2, 1), (1, 2), (2, 2)])
def test_workers_and_replicas_share_the_same_global_batches(workers, replicas):
    features = _features()
    whole = _eids(features, batch_size=4, num_steps=5)
    parts = [
        _eids(
            features,
            batch_size=4,
            num_steps=5,
            worker=worker,
            num_workers=workers,
            replicas_per_worker=replicas,
        )
        for worker in range(workers)
    ]
    for step, batch in enumerate(whole):
        rows = []
        for part in parts:
            for replica in range(replicas):
                rows += part[step * replicas + replica]
        assert rows == batch


def test_evaluation_sees_every_row_once_filled_up_with_zeros():
    seen = {}
    for indices, batch in _features().batches(batch_size=3):
        length = batch["input_ids"].shape[1]
        assert length % 8 == 0 and length - 8 < max(SIZES[i] for i in indices)
        for i, row in enumerate(indices):
            size = SIZES[row]
            expected = np.zeros(length, int)
            expected[:size] = np.arange(1, size + 1) + 100 * row
            np.testing.assert_array_equal(batch["input_ids"][i], expected)
            np.testing.assert_array_equal(
                batch["input_mask"][i], np.arange(length) < size
            )
            seen[int(row)] = float(batch["targets"][i])
    assert seen == {i: i / 2 for i in range(7)}


def _long_features():
    """Returns rows of 3 to 83 tokens, and their sizes."""
    sizes = np.random.default_rng(0).geometric(0.1, 100) + 2
    sizes[50] = 83
    rows = [
        {"input_ids": np.ones(size), "segment_ids": np.zeros(size), "eid": i}
        for i, size in enumerate(sizes)
    ]
    return Features(rows, (*TOKENS, EID)), sizes


def test_a_batch_has_the_smallest_length_that_fits_its_longest_row():
    features, sizes = _long_features()
    choices = [16, 32, 48, 64, 88]
    every = features.training_dataset(
        steps=np.arange(75), length=88, batch_size=4, seed=3
    )
    smallest = [
        min(n for n in choices if n >= sizes[batch["eid"].numpy()].max())
        for batch in every
    ]
    found = features.training_lengths(4, 75, 3, min_batches=0)
    np.testing.assert_array_equal(found, smallest)
    merged = features.training_lengths(4, 75, 3, min_batches=20)
    assert (merged >= found).all()
    counts = {n: (merged == n).sum() for n in np.unique(merged)}
    assert len(counts) < len(np.unique(found))
    assert min(counts[n] for n in sorted(counts)[:-1]) >= 20


def _batches(features, num_steps, group_by_length=True):
    dataset = features.training_dataset(
        steps=np.arange(num_steps),
        length=88,
        batch_size=4,
        seed=3,
        group_by_length=group_by_length,
    )
    return np.array([batch["eid"].numpy() for batch in dataset])


def test_grouping_by_length_shortens_batches_and_keeps_each_windows_rows():
    features, sizes = _long_features()
    batches = _batches(features, 75)
    rows = _batches(features, 75, group_by_length=False)
    for first in range(0, 72, 6):  # a quarter of the epoch's 25 batches
        window = slice(first, first + 6)
        assert sorted(batches[window].flat) == sorted(rows[window].flat)
    plain = features.training_lengths(4, 75, 3, min_batches=0)
    found = features.training_lengths(
        4, 75, 3, min_batches=0, group_by_length=True
    )
    assert found.sum() < 0.8 * plain.sum()
    for length, batch in zip(found, batches, strict=True):
        assert sizes[batch].max() <= length


def test_grouped_batches_are_in_random_order_and_any_prefix_is_the_same():
    features, sizes = _long_features()
    batches = _batches(features, 75)
    np.testing.assert_array_equal(_batches(features, 31), batches[:31])
    means = sizes[batches].mean(1)
    ranks = np.argsort(np.argsort(means[:72].reshape(12, 6)))
    assert len({tuple(order) for order in ranks}) > 6
