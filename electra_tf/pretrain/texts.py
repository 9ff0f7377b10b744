"""Packs in-memory data into batches, for Keras' `fit`."""

import functools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.packing import Example, carry, rows_of
from electra_tf.data.records import layout
from electra_tf.model.networks import complete_ids
from electra_tf.model.text_reader import TextReader
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util.errors import UserError

Data = Sequence[str] | Mapping[str, np.ndarray] | Inputs | tf.data.Dataset
"""Documents, whose lines are sentences; or rows of ids; or a dataset of
batches: of strings, of `Inputs`, or of dicts with "input_ids"."""


def check(config: CorpusConfig) -> None:
    """Refuses options that only records on disk have."""
    for name, value in (
        ("packing", config.packing == "original"),
        ("seq_length_phases", config.seq_length_phases),
        ("drop_duplicates", config.drop_duplicates),
    ):
        if value:
            raise UserError(f"{name} is only for records on disk.")


def pack(
    texts: Sequence[str], config: CorpusConfig, reader: TextReader
) -> Inputs:
    """Packs documents into rows as the training records are packed."""
    if isinstance(texts, str):
        raise UserError(f"Texts must be in a sequence. Received: {texts!r}")
    documents = [text.split("\n") for text in texts]  # as in files
    lines = [line for document in documents for line in document]
    pieces = reader.tokenize(tf.constant(lines, tf.string))  # [lines, (pieces)]
    ids, sizes = pieces.values.numpy(), pieces.row_lengths().numpy().tolist()
    length = reader.max_seq_length
    examples: list[Example] = []
    for number, document in enumerate(documents):
        line_lengths, sizes = sizes[: len(document)], sizes[len(document) :]
        own, ids = np.split(ids, [sum(line_lengths)])
        rng = random.Random(f"{config.data_seed} {number}")
        examples += carry(own, line_lengths, length, rng)
    if not examples:
        raise UserError("The texts have no words.")
    rows = rows_of(examples, length, is_packed=config.is_packed)
    features = layout(rows, length, reader.vocabulary)
    return Inputs(*(feature.astype(np.int32) for feature in features))


def batches(
    data: Data,
    config: CorpusConfig,
    reader: TextReader,
    *,
    batch_size: int,
    seed: int | None = None,
    drop_remainder: bool = False,
) -> tf.data.Dataset:
    """Makes batches of rows, in a random order if there is a seed, [B, L]."""
    if isinstance(data, tf.data.Dataset):
        convert = functools.partial(_inputs, reader)
        data = data.map(convert, num_parallel_calls=tf.data.AUTOTUNE)
        return data.prefetch(tf.data.AUTOTUNE)
    if isinstance(data, Inputs | Mapping):
        rows = _rows(data)
    else:
        rows = pack(data, config, reader)
    num_rows = len(rows.input_ids)
    if drop_remainder and num_rows < batch_size:
        raise UserError(f"{num_rows} rows do not fill a batch of {batch_size}.")
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    if seed is not None:
        dataset = dataset.shuffle(num_rows, seed=seed)
    return dataset.batch(batch_size, drop_remainder=drop_remainder).prefetch(1)


@tf.autograph.experimental.do_not_convert
def _inputs(reader: TextReader, *element: Any) -> Inputs:  # noqa: ANN401
    """Converts a batch of a user's dataset to `Inputs`."""
    if len(element) == len(Inputs._fields):
        return _rows(Inputs(*element))
    (x,) = element
    if isinstance(x, Inputs | Mapping):
        return _rows(x)
    shape = [x.shape.num_elements(), None]  # the tokenizer loses the first
    ids = reader.read(tf.reshape(x, [-1]), is_padded=True)
    return Inputs(**{k: tf.ensure_shape(v, shape) for k, v in ids.items()})


def _rows(x: Inputs | Mapping) -> Inputs:
    """Converts ids of any integer type to `Inputs`."""
    ids = x._asdict() if isinstance(x, Inputs) else x
    return Inputs(**complete_ids(ids))
