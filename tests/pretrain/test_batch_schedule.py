"""What an update takes is a function of the configuration and its number."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from electra_tf.config import phases as phases_lib
from electra_tf.data.records import RecordFile, Records
from electra_tf.pretrain.pretrain_data import BatchSchedule

NUM_STEPS = 2000
SIZES = {32: 500, 64: 300, 128: 1200}  # records by length


def bucketed(sizes):
    return Records(
        tuple(
            RecordFile(f"{length}-{i}", number // 2, 1000, length)
            for length, number in sizes.items()
            for i in range(2)
        )
    )


def plan(text, batch_size=8):
    return phases_lib.plan(
        text,
        num_train_steps=NUM_STEPS,
        batch_size=batch_size,
        max_seq_length=128,
    )


@pytest.fixture
def schedule():
    return BatchSchedule(plan(""), {128: bucketed(SIZES)}, 3)


def test_buckets_hold_the_records_of_a_length(schedule):
    sources = schedule.sources(0)
    lengths = [source.records.max_seq_length for source in sources]
    assert lengths == [32, 64, 128]
    numbers = [source.records.num_records for source in sources]
    assert numbers == list(SIZES.values())
    assert all(source.first_row == 0 for source in sources)


def test_buckets_have_their_shares_of_the_updates_at_all_times(schedule):
    turns = schedule.interleaving(0)
    assert turns.shape == (NUM_STEPS,) and turns.dtype == np.int32
    done = np.arange(1, NUM_STEPS + 1)
    total = sum(SIZES.values())
    for bucket, size in enumerate(SIZES.values()):
        counts = np.cumsum(turns == bucket)
        assert np.abs(counts - done * size / total).max() < 3


def test_no_bucket_waits_long_and_the_order_is_not_periodic(schedule):
    turns = schedule.interleaving(0)
    for bucket, size in enumerate(SIZES.values()):
        gaps = np.diff(np.flatnonzero(turns == bucket))
        assert gaps.max() <= 3 * sum(SIZES.values()) / size
        assert len(set(gaps)) > 1
    for period in range(1, 500):
        assert (turns[period:] != turns[:-period]).any()


def test_turns_are_a_function_of_the_seed_and_the_step(schedule):
    whole = schedule.interleaving(0)
    for step in (1, 777, NUM_STEPS - 1):
        assert (schedule.interleaving(step) == whole[step:]).all()
    other = dataclasses.replace(schedule, seed=4).interleaving(0)
    assert (other != whole).any()
    # The formula of the module's text, in exact fractions.
    offset = int(np.random.SeedSequence(3).generate_state(1)[0])
    golden = round((5**0.5 - 1) / 2 * 2**32)
    for update, turn in enumerate(whole[:50]):
        number = Fraction(offset + update * golden, 2**32) % 1
        ends = [Fraction(n, 2000) for n in (500, 800, 2000)]
        assert turn == next(i for i in range(3) if number < ends[i])


def test_each_bucket_goes_on_where_it_was(schedule):
    whole = schedule.interleaving(0)
    for step in (1, 777, NUM_STEPS - 1):
        expected = 8 * np.bincount(whole[:step], minlength=3)
        found = [source.first_row for source in schedule.sources(step)]
        assert found == expected.tolist()


def test_phases_take_the_records_of_their_length():
    records = {128: bucketed({128: 50}), 512: bucketed({512: 20})}
    phases = plan("128:0.9:64,512:0.1")
    schedule = BatchSchedule(phases, records, 0)
    for step, length, batch_size, first_row in (
        (0, 128, 64, 0),
        (1799, 128, 64, 1799 * 64),
        (1800, 512, 8, 0),
        (1999, 512, 8, 199 * 8),
    ):
        (source,) = schedule.sources(step)
        assert source.records is not None
        assert source.records.max_seq_length == length
        assert (source.batch_size, source.first_row) == (batch_size, first_row)
        assert not schedule.interleaving(step).any()
    assert len(schedule.interleaving(1700)) == 100


def test_a_later_phase_of_the_same_length_goes_on_in_its_data():
    records = {64: bucketed({64: 10}), 128: bucketed(SIZES)}
    phases = plan("128:0.25:4,64:0.25,128:0.5")
    schedule = BatchSchedule(phases, records, 0)
    before = 4 * np.bincount(schedule.interleaving(0), minlength=3)
    first_rows = [source.first_row for source in schedule.sources(1000)]
    assert first_rows == before.tolist()
    now = 8 * np.bincount(schedule.interleaving(1000)[:10], minlength=3)
    first_rows = [source.first_row for source in schedule.sources(1010)]
    assert first_rows == (before + now).tolist()


def test_phases_know_the_mean_length_of_their_rows(schedule):
    (phase,) = schedule.phases
    mean = (32 * 500 + 64 * 300 + 128 * 1200) / 2000
    assert phase.row_length == pytest.approx(mean)
    assert phase.max_seq_length == 128


def test_data_of_any_size_can_be_shared_out():
    huge = RecordFile("a", 10**12, 10**15, 64), RecordFile("b", 1, 9, 128)
    schedule = BatchSchedule(plan(""), {128: Records(huge)}, 0)
    assert not schedule.interleaving(0).any()
