"""From spans of tokens to characters of the context, inside a graph.

It computes what `answer_spans.AnswerTexts` computes outside of one.

Letters in shapes: B questions.
"""

from typing import NamedTuple, Self

import tensorflow as tf

from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa.qa_reading import SPACES
from electra_tf.finetune.qa.token_borders import Alignment, token_borders
from electra_tf.model.graph_tokenization import (
    Tokenizer,
    split_words,
    value_of_row,
    without_invalid_bytes,
    without_nul,
)

_BETWEEN_WORDS = f"[{SPACES}]+"


class Contexts(NamedTuple):
    """Contexts as words and as tokens.

    Shapes: text [B].
    """

    text: tf.Tensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    tokens: tf.RaggedTensor
    words: tf.RaggedTensor
    first_tokens: tf.RaggedTensor

    @classmethod
    def read(cls, text: tf.Tensor, tokenizer: Tokenizer) -> Self:
        """Splits contexts into words and these into tokens.

        Shapes: text [B].
        """
        words, starts, ends = split_words(text, _BETWEEN_WORDS)
        pieces = tokenizer.tokenize(words.values)  # [all words, (tokens)]
        tokens = words.with_values(pieces).merge_dims(1, 2)
        places = tf.ragged.range(words.row_lengths()).values  # [all words]
        first_tokens = tf.cumsum(pieces.row_lengths(), exclusive=True)
        first_tokens -= tf.gather(tokens.row_starts(), words.value_rowids())
        owners = tf.gather(places, pieces.value_rowids())
        return cls(
            text=text,
            starts=starts,
            ends=ends,
            tokens=tokens,
            words=tokens.with_values(tf.cast(owners, tf.int32)),
            first_tokens=words.with_values(tf.cast(first_tokens, tf.int32)),
        )


class AnswerLocations(NamedTuple):
    """Parts of texts, one of each.

    Shapes: text [B], start_byte [B], end_byte [B], start [B], end [B].
    """

    text: tf.Tensor
    start_byte: tf.Tensor
    end_byte: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor


class AnswerLocator:
    """Finds the characters that became a span of tokens."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer.in_graph
        self._unknown_id = tokenizer.vocabulary.unk_id

    def find(
        self,
        contexts: Contexts,
        first: tf.Tensor,
        last: tf.Tensor,
        has_span: tf.Tensor,
    ) -> AnswerLocations:
        """Finds the characters of a span of each context.

        Shapes: first [B], last [B], has_span [B].
        """
        opening = self._token(contexts, first, has_span)
        closing = self._token(contexts, last, has_span)
        count = tf.where(has_span, last - first + 1, 0)
        begins = tf.cast(contexts.tokens.row_starts(), tf.int32) + first
        spans = tf.ragged.range(begins, begins + count)  # [B, (tokens)]
        ids = tf.gather(contexts.tokens.values, spans)
        is_whole = tf.reduce_any(ids == self._unknown_id, 1)
        start, end = opening.word_start, closing.word_end
        words = tf.strings.substr(contexts.text, start, end - start)
        alignment = Alignment.of(without_nul(words), self._tokenizer)
        is_whole |= alignment.length_change != 0
        is_whole &= ~alignment.is_unspaced
        is_whole |= closing.end <= opening.start
        start = tf.where(is_whole, start, opening.start)
        end = tf.where(is_whole, end, closing.end)
        return _locations(contexts.text, start, end)

    def _token(
        self, contexts: Contexts, number: tf.Tensor, is_there: tf.Tensor
    ) -> "_TokenPlace":
        """Finds a token of each context, int32 [B]."""
        rows = tf.range(tf.size(number))
        word = value_of_row(contexts.words, rows, number, is_there)
        start, end, before = (
            value_of_row(x, rows, word, is_there)
            for x in (contexts.starts, contexts.ends, contexts.first_tokens)
        )
        words = tf.strings.substr(contexts.text, start, end - start)
        borders = (
            start + value_of_row(x, rows, number - before, is_there)
            for x in token_borders(without_nul(words), self._tokenizer)
        )
        return _TokenPlace(start, end, *borders)


class _TokenPlace(NamedTuple):
    """A token of each context, in bytes.

    Shapes: word_start [B], word_end [B], start [B], end [B].
    """

    word_start: tf.Tensor
    word_end: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor


def _locations(
    text: tf.Tensor, start: tf.Tensor, end: tf.Tensor
) -> AnswerLocations:
    """Describes the parts of texts between two bytes, int32 [B] each."""
    part = without_invalid_bytes(tf.strings.substr(text, start, end - start))
    start_char, end_char = (
        tf.strings.length(
            tf.strings.substr(text, tf.zeros_like(x), x), unit="UTF8_CHAR"
        )
        for x in (start, end)
    )
    part = tf.strings.regex_replace(part, _BETWEEN_WORDS, " ")
    return AnswerLocations(part, start, end, start_char, end_char)
