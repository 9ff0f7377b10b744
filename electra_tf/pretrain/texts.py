"""Packs in-memory data into batches, for Keras' `fit`."""

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.formats.rows import is_unicode
from electra_tf.data.packing_rules import ExampleSpan, carry, rows_of
from electra_tf.data.record_format import layout
from electra_tf.model.networks import complete_ids
from electra_tf.model.text_reader import TextReader
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util.errors import UserError, shorten_repr

Data = Sequence[str] | Mapping[str, np.ndarray] | Inputs | tf.data.Dataset
"""Documents, whose lines are sentences; or rows of ids; or a dataset of
batches: of strings, of `Inputs`, or of dicts with "input_ids"."""


def check(config: CorpusConfig) -> None:
    """Refuses options that only records on disk have, instead of ignoring
    them."""
    refused = {
        "packing=original": config.packing == "original",
        "seq_length_phases": config.seq_length_phases,
        "length_buckets": config.length_buckets,
        "split_sentences": config.split_sentences,
        "drop_duplicates": config.drop_duplicates,
    }
    given = [name for name, is_given in refused.items() if is_given]
    if given:
        raise UserError(
            "`fit` supports packing=carry or packed, one row length, and lines "
            "and documents as they are. Received: "
            f"{', '.join(given)}. Do not set it, or build records with it and "
            "train with electra_tf.run_pretraining."
        )


def pack(
    texts: Sequence[str], config: CorpusConfig, reader: TextReader
) -> Inputs:
    """Packs documents into rows as the training records are packed."""
    wrong = [texts]
    if isinstance(texts, Collection) and not isinstance(texts, str):
        wrong = [x for x in texts if not (isinstance(x, str) and is_unicode(x))]
    if wrong:
        raise UserError(
            "Texts must be a sequence of strings without lone surrogates, or a "
            f"tf.data.Dataset. Received: {shorten_repr(wrong[0])}."
        )
    documents = [text.split("\n") for text in texts]  # as in files
    lines = [line for document in documents for line in document]
    if not any(line.strip() for line in lines):
        raise UserError(
            "The texts must have words to learn from. Received: blank lines "
            "only."
        )
    pieces = reader.tokenize(tf.constant(lines))  # [lines, (pieces)]
    sizes = iter(pieces.row_lengths().numpy().tolist())
    length, start = reader.max_seq_length, 0
    spans: list[ExampleSpan] = []
    for number, document in enumerate(documents):
        line_lengths = [next(sizes) for _ in document]
        rng = random.Random(f"{config.data_seed} {number}")
        cut = carry(line_lengths, length, rng)
        spans += [ExampleSpan(*(start + end for end in span)) for span in cut]
        start += sum(line_lengths)
    rows = rows_of(spans, length, is_packed=config.is_packed)
    made = layout(pieces.values.numpy(), rows, length, reader.vocabulary)
    return Inputs(*(feature.astype(np.int32) for feature in made))


def batches(
    data: Data,
    config: CorpusConfig,
    reader: TextReader,
    *,
    batch_size: int,
    seed: int | None = None,
) -> tf.data.Dataset:
    """Makes batches of rows from the data that `fit` is given.

    Shapes: returns [B, L].
    """
    if isinstance(data, tf.data.Dataset):
        _check_elements(data.element_spec)
        convert = tf.autograph.experimental.do_not_convert(
            lambda *x: _inputs(x, reader)
        )
        return data.map(convert, num_parallel_calls=tf.data.AUTOTUNE).prefetch(
            tf.data.AUTOTUNE
        )
    if isinstance(data, Inputs | Mapping):
        rows = _rows(data)
    else:
        rows = pack(data, config, reader)
    made = tf.data.Dataset.from_tensor_slices(rows)
    if seed is None:
        return made.batch(batch_size)
    num_rows = len(rows.input_ids)
    if num_rows < batch_size:
        raise UserError(
            f"There must be at least {batch_size} rows, one batch. Received: "
            f"{num_rows}. Give more text, or a smaller batch_size."
        )
    made = made.shuffle(num_rows, seed=seed)
    return made.batch(batch_size, drop_remainder=True).prefetch(1)


def _check_elements(spec: Any) -> None:  # noqa: ANN401 (any structure)
    """Checks the element spec of a user's dataset."""
    (part,) = spec if isinstance(spec, tuple) and len(spec) == 1 else (spec,)
    is_text = isinstance(part, tf.TensorSpec) and part.dtype == tf.string
    if is_text and part.shape.rank in (1, None):
        return
    if not isinstance(part, Inputs | Mapping):
        raise UserError(
            "A dataset must have batches of texts, string [B], of `Inputs`, or "
            "of dicts with input_ids, without labels. Received: elements of "
            f"{shorten_repr(spec)}. Make batches with .batch(n), or name the "
            "ids."
        )


def _inputs(element: tuple, reader: TextReader) -> Inputs:
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
