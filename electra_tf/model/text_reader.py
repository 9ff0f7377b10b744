"""Text to rows of token ids, [CLS] word pieces [SEP], inside a graph.

Texts that are longer than a row are read in overlapping windows. Each token
takes its scores from the window where the shorter of its two contexts, left and
right, is longest; on ties from the first.
"""

import base64
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from electra_tf.model.graph_tokenization import (
    Tokenizer,
    make_tokenizer,
    pack_rows,
)
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

Ids = dict[str, tf.Tensor]
"""int32 [B, L] each: "input_ids", 0 past the end; "input_mask", 1 on tokens;
"segment_ids", 0 or 1."""
MASK = "[MASK]"

_MIN_LENGTH = 3  # of a row: [CLS], a token, [SEP]


def require_row_length(length: int, num_positions: int) -> None:
    if not _MIN_LENGTH <= length <= num_positions:
        raise UserError(
            f"`max_seq_length` must be from {_MIN_LENGTH} to {num_positions}, "
            f"not {length}."
        )


def require_vocabulary_size(vocabulary: Vocabulary, vocab_size: int) -> None:
    if vocabulary.size > vocab_size:
        raise UserError(
            f"The vocabulary has {vocabulary.size} tokens, the encoder "
            f"embeddings of {vocab_size}: another vocabulary is needed."
        )


@dataclasses.dataclass(eq=False)
class TextReader:
    """Tokenizes text and adds [CLS] and [SEP].

    Differs: with `reads_masks`, "[MASK]" in text is the mask token; the
    original's tokenizer does not know it and splits it in three.
    """

    vocabulary: Vocabulary
    _: dataclasses.KW_ONLY
    do_lower_case: bool = True
    strip_accents: bool = True
    max_seq_length: int = 128
    reads_masks: bool = False

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; made on first use, as it needs tensorflow_text."""
        with tf.init_scope():
            return make_tokenizer(
                self.vocabulary, self.do_lower_case, self.strip_accents
            )

    def read(
        self,
        text: tf.Tensor,
        other: tf.Tensor | None = None,
        *,
        is_padded: bool = False,
    ) -> Ids:
        """Reads texts or pairs, string [B], as rows; see `pack_rows`."""
        second = None if other is None else self.tokenize(other)
        return self.rows(self.tokenize(text), second, is_padded=is_padded)

    def rows(
        self,
        first: tf.RaggedTensor,
        second: tf.RaggedTensor | None = None,
        *,
        is_padded: bool = False,
    ) -> Ids:
        return pack_rows(
            first,
            second,
            self.vocabulary,
            self.max_seq_length,
            is_padded=is_padded,
        )

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of the word pieces, int32 [B, (pieces)]: text [B]."""
        if not self.reads_masks:
            return self.tokenizer.tokenize(text)
        return self.tokenize_parts(text, tf.zeros(tf.shape(text), tf.bool))

    def tokenize_parts(
        self, text: tf.Tensor, is_later: tf.Tensor
    ) -> tf.RaggedTensor:
        """Tokenizes parts [B] of texts, as if `is_later` [B] followed text."""
        if not self.reads_masks:
            return self.tokenizer.tokenize_parts(text, is_later)
        parts = tf.strings.split(text, MASK)  # [B, (parts)]
        follows = tf.ragged.range(parts.row_lengths()).values > 0  # a mask
        follows |= tf.gather(is_later, parts.value_rowids())
        pieces = self.tokenizer.tokenize_parts(parts.values, follows)
        masks = tf.fill([pieces.nrows(), 1], self.vocabulary.mask_id)
        pieces = tf.concat([masks, pieces], axis=1)  # a mask before each part
        return parts.with_values(pieces).merge_dims(1, 2)[:, 1:]  # or between

    def tokens(self, ids: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the word pieces, string [B, L], "" on padding."""
        tokens = tf.gather(self.vocabulary.tokens, ids["input_ids"])
        return tf.where(ids["input_mask"] > 0, tokens, "")

    def get_config(self) -> dict[str, Any]:
        return {
            "vocabulary": vocabulary_config(self.vocabulary),
            "do_lower_case": self.do_lower_case,
            "strip_accents": self.strip_accents,
            "max_seq_length": self.max_seq_length,
        }


def vocabulary_config(vocabulary: Vocabulary) -> dict[str, Any]:
    counts = vocabulary.counts
    return {
        "tokens": list(vocabulary.tokens),
        "sentencepiece": base64.b64encode(vocabulary.sentencepiece).decode(),
        "added": list(vocabulary.added),
        "counts": None if counts is None else list(map(int, counts)),
    }


def vocabulary_from_config(config: Mapping[str, Any]) -> Vocabulary:
    counts = config.get("counts")
    return Vocabulary(
        tuple(config["tokens"]),
        sentencepiece=base64.b64decode(config["sentencepiece"]),
        added=tuple(config.get("added", ())),
        counts=None if counts is None else tuple(counts),
    )


class Windows(NamedTuple):
    """Tokens that are read together, [W] each, ordered by text and token."""

    texts: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    score_starts: tf.Tensor
    score_ends: tf.Tensor


def windows(num_tokens: tf.Tensor, size: int) -> Windows:
    """Covers texts with windows, each half a window after the last."""
    step = max(1, size // 2)
    lasts = tf.maximum(num_tokens - size, 0)  # where each last window starts
    counts = tf.where(num_tokens > 0, 1 - (-lasts // step), 0)
    numbers = tf.ragged.range(counts)  # [B, (windows)]
    texts = numbers.value_rowids()
    starts = tf.minimum(step * numbers.values, tf.gather(lasts, texts))
    num_tokens = tf.gather(num_tokens, texts)
    ends = tf.minimum(starts + size, num_tokens)
    # The shorter sides of two windows are equal halfway between their middles.
    is_first = numbers.values == 0
    before = tf.roll(ends, 1, 0)
    score_starts = tf.where(is_first, 0, (before - 1 + starts) // 2 + 1)
    score_ends = tf.where(
        tf.roll(is_first, -1, 0), num_tokens, tf.roll(score_starts, -1, 0)
    )
    return Windows(texts, starts, ends, score_starts, score_ends)
