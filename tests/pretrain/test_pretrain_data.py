"""The order of training rows is a function of (seed, step) alone."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.corpus import plan_phases
from electra_tf.data.reading import RecordFile, Records
from electra_tf.data.records import Rows, serialize
from electra_tf.pretrain.pretrain_data import (
    BatchSchedule,
    Inputs,
    evaluation_dataset,
    training_dataset,
)

LENGTH = 4
FILE_SIZES = (5, 3, 7, 1, 4)
NUM_RECORDS = sum(FILE_SIZES)
BATCH = 8


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Five files whose records are numbered in `input_ids`."""
    directory = tmp_path_factory.mktemp("records")
    ids = np.array([[number, 1, 2, 0] for number in range(NUM_RECORDS)])
    mask = np.broadcast_to([1, 1, 1, 0], ids.shape)
    content = iter(serialize(Rows(ids, mask, np.zeros_like(ids))))
    files = []
    for i, size in enumerate(FILE_SIZES):
        path = str(directory / f"{i}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for record in itertools.islice(content, size):
                writer.write(record)
        files.append(RecordFile(path, size, size * 2**20))
    return Records(tuple(files), LENGTH)


def take(records, num_elements, *, seed=1, first_row=0, context=None):
    """Returns the record numbers of some elements, [elements, rows]."""
    place = {"seed": seed, "first_row": first_row, "context": context}
    dataset = training_dataset(
        records, batch_size=BATCH, shuffle_megabytes=9, **place
    )
    elements = dataset.take(num_elements)
    return np.array([inputs.input_ids[:, 0] for inputs in elements])


@pytest.fixture(scope="module")
def stream(records):
    return take(records, 10)


def test_an_epoch_holds_each_record_once(stream):
    epochs = stream.reshape(4, NUM_RECORDS)
    assert (np.sort(epochs) == np.arange(NUM_RECORDS)).all()
    assert len(np.unique(epochs, axis=0)) == 4


def test_the_order_is_a_function_of_the_seed(records, stream):
    assert stream[0].tolist() == [18, 7, 19, 6, 16, 17, 5, 15]  # for ever
    assert (take(records, 10, seed=2) != stream).any()


@pytest.mark.parametrize(
    ("num_workers", "num_replicas", "start_step"),
    [(1, 1, 9), (1, 4, 0), (1, 2, 3), (2, 1, 3), (4, 2, 0)],
)
def test_rows_depend_on_the_step_alone(
    records, stream, num_workers, num_replicas, start_step
):
    num_steps, total = 10 - start_step, num_workers * num_replicas
    shares = [
        take(
            records,
            num_steps * num_replicas,
            first_row=start_step * BATCH,
            context=tf.distribute.InputContext(num_workers, worker, total),
        ).reshape(num_steps, -1)
        for worker in range(num_workers)
    ]
    assert (np.concatenate(shares, axis=1) == stream[start_step:]).all()


@pytest.mark.parametrize("batch_size", [6, 50])
def test_evaluation_holds_each_record_once_in_order(records, batch_size):
    batches = list(evaluation_dataset(records, batch_size=batch_size))
    assert len(batches) == -(-NUM_RECORDS // batch_size)
    rows = Inputs(*(np.concatenate(x) for x in zip(*batches, strict=True)))
    assert rows.input_ids[:, 0].tolist() == list(range(NUM_RECORDS))
    assert rows.input_mask.tolist() == [[1, 1, 1, 0]] * NUM_RECORDS


def _sources(text, *steps):
    """Returns row length, batch size and first row at each step."""
    phases = plan_phases(
        text, num_train_steps=2000, batch_size=8, max_seq_length=128
    )
    records = {n: Records((RecordFile(f"{n}", 50, 1000),), n) for n in LENGTHS}
    schedule = BatchSchedule(phases, records, 0)
    sources = map(schedule.source, steps)
    return [(rows.max_seq_length, *others) for rows, *others in sources]


LENGTHS = (64, 128, 512)


def test_phases_take_the_records_of_their_length():
    sources = _sources("128:0.9:64,512:0.1", 0, 1799, 1800, 1999)
    first, last = (128, 64, 0), (512, 8, 199 * 8)
    assert sources == [first, (128, 64, 1799 * 64), (512, 8, 0), last]


def test_a_later_phase_of_the_same_length_goes_on_in_its_data():
    before = 500 * 4
    sources = _sources("128:0.25:4,64:0.25,128:0.5", 500, 1000, 1010)
    assert sources == [(64, 8, 0), (128, 8, before), (128, 8, before + 80)]
