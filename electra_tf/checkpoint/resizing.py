"""Resizing of weights: another vocabulary, longer texts, fewer layers."""

import dataclasses
from typing import NamedTuple

import numpy as np

from electra_tf.checkpoint.weights import WORD_EMBEDDINGS, Weights
from electra_tf.config.model import DIFFERENCE
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

_POSITIONS = "/embeddings/position_embeddings"
_OUTPUT = "/output_bias"


class Resizing(NamedTuple):
    """Counts of the rows of a resized table."""

    kept: int
    new: int
    dropped: int

    def describe(self, table: str) -> str:
        """Returns a line with the counts of a table."""
        return (
            f"{table}: {self.kept:,} rows kept, {self.new:,} new, "
            f"{self.dropped:,} dropped."
        )


def resize_vocabulary(
    weights: Weights,
    size: int,
    vocabulary: Vocabulary | None = None,
    *,
    seed: int = 0,
) -> tuple[Weights, Resizing]:
    """Resizes the word embeddings to a number of rows, or to a vocabulary."""
    old = weights.architecture.encoder.vocab_size
    rows = _rows(weights.vocabulary, vocabulary, old, size)
    random = np.random.default_rng(seed)
    scale = weights.architecture.encoder.initializer_range
    arrays = dict(weights.arrays)
    for name, array in arrays.items():
        weight = _weight_of(name)
        if weight.endswith(
            (WORD_EMBEDDINGS, f"{WORD_EMBEDDINGS}{DIFFERENCE}", _OUTPUT)
        ):
            fill = array.mean(0) if weight == name else np.zeros_like(array[0])
            noise = 0.0
            if name.endswith(WORD_EMBEDDINGS):
                shape = (size, array.shape[1])
                noise = np.clip(random.normal(size=shape), -2, 2) * scale
            known = array[np.maximum(rows, 0)]
            is_known = (rows >= 0).reshape([-1] + [1] * (array.ndim - 1))
            arrays[name] = np.where(is_known, known, fill + noise).astype(
                array.dtype
            )
    kept = int((rows >= 0).sum())
    resized = dataclasses.replace(
        weights,
        arrays=arrays,
        architecture=weights.architecture.with_fields(vocab_size=size),
        vocabulary=vocabulary or _truncated(weights.vocabulary, size),
    )
    return resized, Resizing(kept, size - kept, old - kept)


def resize_positions(weights: Weights, size: int) -> tuple[Weights, Resizing]:
    """Resizes the position embeddings."""
    old = weights.architecture.encoder.max_position_embeddings
    arrays = dict(weights.arrays)
    for name, array in arrays.items():
        weight = _weight_of(name)
        if not weight.endswith((_POSITIONS, f"{_POSITIONS}{DIFFERENCE}")):
            continue
        arrays[name] = np.resize(array, (size, array.shape[1]))
        if weight != name:
            arrays[name][len(array) :] = 0
    longer = weights.architecture.with_fields(max_position_embeddings=size)
    resized = dataclasses.replace(weights, arrays=arrays, architecture=longer)
    kept = min(old, size)
    return resized, Resizing(kept, size - kept, old - kept)


def keep_layers(weights: Weights, count: int) -> Weights:
    """Keeps the lowest layers of an encoder, with their slots.

    Source: Sajjad et al., 2023, "On the Effect of Dropping Layers of
    Pre-trained Transformer Models", top-layer dropping.
    """
    old = weights.architecture.encoder.num_hidden_layers
    if count > old:
        raise UserError(
            f"`num_hidden_layers` must be at most {old}, the layers of "
            f"{weights.origin}. Received: num_hidden_layers={count}."
        )
    dropped = tuple(f"electra/encoder/layer_{i}/" for i in range(count, old))
    arrays = {
        name: array
        for name, array in weights.arrays.items()
        if not name.startswith(dropped)
    }
    fewer = weights.architecture.with_fields(num_hidden_layers=count)
    return dataclasses.replace(weights, arrays=arrays, architecture=fewer)


def _weight_of(name: str) -> str:
    """Returns the weight that a slot belongs to; a weight's own name."""
    return name.removesuffix("/adam_m").removesuffix("/adam_v")


def _rows(
    before: Vocabulary | None, after: Vocabulary | None, old: int, size: int
) -> np.ndarray:
    """Returns int [size]: for each new row the index of the old one, or -1."""
    if after is not None and after.size > size:
        raise UserError(
            f"`vocab_size` must be at least {after.size}, the words of the "
            f"vocabulary. Received: vocab_size={size}."
        )
    rows = np.arange(size)
    if before is not None and after is not None:
        ids = [before.ids.get(token, -1) for token in after.tokens]
        rows[: after.size] = ids
        rows[after.size :] = -1
    rows[rows >= old] = -1
    return rows


def _truncated(vocabulary: Vocabulary | None, size: int) -> Vocabulary | None:
    if vocabulary is None or vocabulary.size <= size:
        return vocabulary
    if vocabulary.sentencepiece:
        raise UserError(
            f"`vocab_size` must be at least {vocabulary.size}, the pieces of "
            f"the SentencePiece model. Received: vocab_size={size}."
        )
    return dataclasses.replace(vocabulary, tokens=vocabulary.tokens[:size])
