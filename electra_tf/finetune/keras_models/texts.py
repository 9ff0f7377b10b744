"""Texts and pairs as Keras' users hold them, and the rows they become."""

from collections.abc import Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf.finetune.preprocessing import (
    TextTokenizer,
    join,
    truncate_pair,
)
from electra_tf.finetune.task import Row
from electra_tf.util.errors import UserError, shown

Texts = Sequence[str] | Sequence[tuple[str, str]] | tuple[Sequence[str], ...]
"""Texts; or pairs, as a sequence of tuples, or as a tuple of two sequences."""
Columns = list[list[str]]
"""One list of texts, or two as long as each other."""


def columns_of(texts: Texts) -> Columns:
    """Tells texts from pairs, and checks them.

    Args:
      texts: see `Texts`.

    Raises:
      UserError: naming what is no text, or has no partner.
    """
    if isinstance(texts, tf.Tensor) and texts.dtype == tf.string:
        texts = np.char.decode(texts.numpy().astype(bytes), "utf-8")
    check_sequence(texts, "Texts must be a sequence of strings or of pairs")
    if not len(texts):
        raise UserError("There must be texts. Received: none.")
    columns = [list(texts)]
    if not isinstance(columns[0][0], str | bytes):
        # A tuple of two sequences has the texts of a pair side by side, any
        # other sequence one after the other.
        is_split = isinstance(texts, tuple) and len(texts) == 2
        columns = list(map(list, texts)) if is_split else _split(columns[0])
    if len({len(column) for column in columns}) > 1:
        raise UserError(
            "Each text must have its partner. Received: "
            f"{' and '.join(str(len(column)) for column in columns)} texts."
        )
    for column in columns:
        for number, text in enumerate(column):
            if not isinstance(text, str):
                way_out = " Decode it: text.decode()."
                raise UserError(
                    f"Texts must be strings. Received: {shown(text)} at "
                    f"{number}." + way_out * isinstance(text, bytes)
                )
    return columns


def check_sequence(values: object, expected: str) -> None:
    """Refuses what is a text, a table, or has no length.

    Args:
      values: that were given.
      expected: begins the message.

    Raises:
      UserError: saying what to give instead.
    """
    way_out = ""
    if isinstance(values, Mapping) or hasattr(values, "columns"):
        way_out = ' Give a column: x["text"], or (x["a"], x["b"]) for pairs.'
    elif isinstance(values, keras.utils.PyDataset | Iterator):
        way_out = " Give lists, or tf.data.Dataset.from_generator."
    if way_out or isinstance(values, str) or not hasattr(values, "__len__"):
        received = type(values).__name__ if way_out else shown(values)
        raise UserError(f"{expected}. Received: {received}.{way_out}")


def rows_of(
    columns: Columns, tokenizer: TextTokenizer, length: int
) -> Iterator[Row]:
    """Yields the rows of texts or pairs, as `run_finetuning` makes them.

    Args:
      columns: of `columns_of`.
      tokenizer: of the encoder.
      length: tokens in the longest row; what is longer is cut.
    """
    vocabulary = tokenizer.vocabulary
    for ids in zip(*map(tokenizer.tokenize, columns), strict=True):
        if len(ids) == 1:
            yield join(vocabulary, ids[0][: length - 2])
        else:
            yield join(vocabulary, *truncate_pair(*ids, length - 3))


def _split(pairs: Sequence[Sequence[str]]) -> Columns:
    for number, pair in enumerate(pairs):
        if isinstance(pair, str | bytes) or not _has_two(pair):
            raise UserError(
                "Texts must be strings, or each a pair of strings. Received: "
                f"{shown(pair)} at {number}."
            )
    return [list(column) for column in zip(*pairs, strict=True)]


def _has_two(pair: object) -> bool:
    return hasattr(pair, "__len__") and len(pair) == 2
