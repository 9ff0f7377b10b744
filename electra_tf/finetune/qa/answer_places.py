"""From spans of tokens to characters of the context, inside a graph.

It computes what `answer_spans.AnswerTexts` computes in Python.

Letters in shapes: B questions.
"""

from typing import NamedTuple, Self

import tensorflow as tf

from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.model.characters import (
    character_bytes,
    num_characters,
    split_words,
    value_of_row,
)
from electra_tf.model.graph_tokenization import (
    Tokenizer,
    single_spaced,
    without_invalid_bytes,
)
from electra_tf.model.sentencepiece_model import WORD_INDICATOR
from electra_tf.model.tokenization import SUFFIX_INDICATOR

_SPACES = " \t\r\n\u202f"  # between words, as in `qa_reading.Context`
_BETWEEN_WORDS = f"[{_SPACES}]+"


class Contexts(NamedTuple):
    """Contexts as words and as tokens.

    Attributes:
      text: string [B], as they came.
      starts: int32 [B, (words)], the first byte of each word.
      ends: int32 [B, (words)], one past its last byte.
      tokens: int32 [B, (tokens)], ids of the tokens of all words.
      words: int64 [B, (tokens)], the word of each token.
    """

    text: tf.Tensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    tokens: tf.RaggedTensor
    words: tf.RaggedTensor

    @classmethod
    def read(cls, text: tf.Tensor, tokenizer: Tokenizer) -> Self:
        """Splits contexts into words and these into tokens.

        Args:
          text: string [B].
          tokenizer: of the encoder's vocabulary.
        """
        words, starts, ends = split_words(text, _BETWEEN_WORDS)
        pieces = tokenizer.tokenize(words.values)  # [all words, (tokens)]
        sizes = words.with_values(pieces.row_lengths())
        numbers = tf.ragged.range(words.row_lengths())
        return cls(
            text=text,
            starts=starts,
            ends=ends,
            tokens=words.with_values(pieces).merge_dims(1, 2),
            words=numbers.with_values(
                tf.RaggedTensor.from_row_lengths(
                    tf.repeat(numbers.values, sizes.values), sizes.values
                )
            ).merge_dims(1, 2),
        )


class AnswerLocations(NamedTuple):
    """Parts of texts, one of each.

    Attributes:
      text: string [B], the part, with words separated by single spaces and
        without bytes that are not UTF-8.
      start_byte: int32 [B], its first byte.
      end_byte: int32 [B], one past its last byte.
      start: int32 [B], its first character.
      end: int32 [B], one past its last character.
    """

    text: tf.Tensor
    start_byte: tf.Tensor
    end_byte: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor


class AnswerLocator:
    """Finds the characters that became a span of tokens.

    If normalization changed the number of characters in the words of the
    span, these are taken as a whole.

    Args:
      tokenizer: the tokenizer that made the tokens.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer.in_graph
        self._vocabulary = tokenizer.vocabulary

    def find(
        self,
        contexts: Contexts,
        first: tf.Tensor,
        last: tf.Tensor,
        has_span: tf.Tensor,
    ) -> AnswerLocations:
        """Finds the characters of a span of each context.

        Args:
          contexts: B contexts.
          first: int32 [B], number of the first token.
          last: int32 [B], number of the last token.
          has_span: bool [B], whether there is a span; else it is empty.
        """
        count = tf.where(has_span, last - first + 1, 0)
        begins = tf.cast(contexts.tokens.row_starts(), tf.int32) + first
        spans = tf.ragged.range(begins, begins + count)  # [B, (tokens)]
        words = tf.gather(contexts.words.values, spans)
        word_starts = tf.gather(contexts.starts, words, batch_dims=1)
        word_ends = tf.gather(contexts.ends, words, batch_dims=1)
        start = tf.where(has_span, tf.reduce_min(word_starts, 1), 0)
        end = tf.where(has_span, tf.reduce_max(word_ends, 1), 0)
        words_text = tf.strings.substr(contexts.text, start, end - start)
        tokens = self._token_text(tf.gather(contexts.tokens.values, spans))
        begin, length = self._characters(words_text, tokens)
        return _locations(contexts.text, start + begin, start + begin + length)

    def _token_text(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns the text of tokens, string [B]."""
        tokens = tf.gather(self._vocabulary.tokens, ids)
        if self._vocabulary.sentencepiece:
            text = tf.strings.reduce_join(tokens, -1)
            return single_spaced(
                tf.strings.regex_replace(text, WORD_INDICATOR, " ")
            )
        text = tf.strings.reduce_join(tokens, -1, separator=" ")
        return single_spaced(
            tf.strings.regex_replace(text, f" ?{SUFFIX_INDICATOR}", "")
        )

    def _characters(
        self, text: tf.Tensor, tokens: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the first byte of what became tokens, and how many bytes.

        It computes `answer_spans.get_final_text` of `text`, whole words, and
        `tokens`, a part of them after normalization, string [B] each.
        """
        normal = self._tokenizer.normalize(text)
        starts, ends = character_bytes(text, without=_SPACES)
        before, is_found = _find(normal, tokens)
        first, count = num_characters(before), num_characters(tokens)
        is_whole = starts.row_lengths() == tf.cast(
            num_characters(normal), tf.int64
        )
        is_aligned = is_found & (count > 0) & is_whole
        rows = tf.range(tf.size(text))
        begin = value_of_row(starts, rows, first, is_aligned)
        end = value_of_row(ends, rows, first + count - 1, is_aligned)
        end = tf.where(is_aligned, end, tf.strings.length(text))
        return begin, end - begin


def _find(text: tf.Tensor, part: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the text before a part of each text, and if the part is there."""

    def find(pair: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        pieces = tf.strings.split(pair[0][tf.newaxis], sep=pair[1]).values
        return pieces[0], tf.size(pieces) > 1

    return tf.map_fn(
        find,
        (tf.strings.join([text, "\0"]), part),  # so that there is a piece
        fn_output_signature=(tf.string, tf.bool),
    )


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
