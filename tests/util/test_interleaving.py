import numpy as np

from electra_tf.util.interleaving import UNIT, interleave_schedule


def _ends(shares):
    return (np.cumsum(shares, -1) * UNIT).astype(np.int64)


def test_every_source_has_its_share_at_all_times_and_no_period():
    shares = np.array([0.15, 0.05, 0.8])
    sources = interleave_schedule(_ends(shares), 3000, 7)
    assert sources.shape == (3000,) and sources.dtype == np.int32
    done = np.arange(1, 3001)
    for source, share in enumerate(shares):
        counts = np.cumsum(sources == source)
        assert np.abs(counts - done * share).max() < 3
        gaps = np.diff(np.flatnonzero(sources == source))
        assert gaps.max() <= 3 / share
    for period in range(1, 500):
        assert (sources[period:] != sources[:-period]).any()


def test_shares_may_change_from_update_to_update():
    first = np.linspace(0.9, 0.3, 4000)
    sources = interleave_schedule(
        _ends(np.stack([first, 1 - first], -1)), 4000, 1
    )
    for part in np.split(np.arange(4000), 8):
        expected = first[part].sum()
        assert abs((sources[part] == 0).sum() - expected) < 8


def test_the_schedule_is_a_function_of_seed_and_position():
    ends = _ends([0.5, 0.5])
    whole = interleave_schedule(ends, 100, 3)
    np.testing.assert_array_equal(interleave_schedule(ends, 40, 3), whole[:40])
    assert (interleave_schedule(ends, 100, 4) != whole).any()


def test_a_single_source_has_every_update():
    assert not interleave_schedule(_ends([1.0]), 9, 0).any()


def test_a_single_source_takes_no_memory():
    found = interleave_schedule(np.array([UNIT]), 10**12, 3)
    assert found.shape == (10**12,) and found.strides == (0,)
    assert not found[:5].any()
