"""The best answers of `qa_scorer`, found inside a graph, for exports.

Letters in shapes: B questions, W windows of all questions, R windows in a
block, L tokens in a row.
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa import qa_heads
from electra_tf.finetune.qa.qa_files import SPACES
from electra_tf.finetune.qa.qa_rows import (
    Windows,
    alignment,
    get_windows,
    is_max_context,
    token_borders,
)
from electra_tf.model import tensor_ops
from electra_tf.model.graph_tokenization import (
    pack_rows,
    split_words,
    value_of_row,
    without_invalid_bytes,
    without_nul,
)
from electra_tf.serving.saved_models import in_blocks

_BETWEEN_WORDS = f"[{SPACES}]+"


class AnswerFinder:
    """Finds the best span of each context, and its characters."""

    def __init__(
        self,
        tokenizer: TextTokenizer,
        config: QAConfig,
        max_seq_length: int,
        outputs: Callable[[dict[str, tf.Tensor]], Mapping[str, tf.Tensor]],
    ) -> None:
        self.tokenizer = tokenizer
        self.config = config
        self.max_seq_length = max_seq_length
        self.outputs = outputs

    def __call__(
        self, question: tf.Tensor, context: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns the answers to questions, [B] each; see `export`."""
        tokenize = self.tokenizer.in_graph.tokenize
        words, starts, ends = split_words(context, _BETWEEN_WORDS)
        pieces = tokenize(words.values)  # [all words, (tokens)]
        tokens = words.with_values(pieces).merge_dims(1, 2)  # [B, (tokens)]
        questions = tokenize(question)[:, : self.config.max_query_length]
        scores, first, last, null_scores = self._best_spans(questions, tokens)
        has_span = scores > tensor_ops.ZERO_PROB_LOGIT
        begins = tf.cast(tokens.row_starts(), tf.int32)
        rows = tf.range(tf.size(first))
        owners = tf.cast(pieces.value_rowids(), tf.int32)
        before = tf.cast(pieces.row_starts(), tf.int32)  # tokens of other words

        def place(token: tf.Tensor) -> list[tf.Tensor]:
            """Returns the bytes of the word of a token, and of the token."""
            token = tf.where(has_span, begins + token, tf.size(owners))
            word = tf.gather(tf.concat([owners, [tf.size(before)]], 0), token)
            begin, end, first = (
                tf.gather(tf.concat([x, [0]], 0), word)
                for x in (starts.values, ends.values, before)
            )
            text = tf.strings.substr(context, begin, end - begin)
            borders = token_borders(without_nul(text), self.tokenizer.in_graph)
            in_word = (
                value_of_row(x, rows, token - first, has_span) for x in borders
            )
            return [begin, end, *(begin + x for x in in_word)]

        word_start, _, start, _ = place(first)
        _, word_end, _, end = place(last)
        span = begins + first, begins + tf.where(has_span, last + 1, first)
        ids = tf.gather(tokens.values, tf.ragged.range(*span))
        text = tf.strings.substr(context, word_start, word_end - word_start)
        change, is_unspaced = alignment(
            without_nul(text), self.tokenizer.in_graph
        )
        is_whole = tf.reduce_any(ids == self.tokenizer.vocabulary.unk_id, 1)
        is_whole = (is_whole | (change != 0)) & ~is_unspaced | (end <= start)
        start = tf.where(is_whole, word_start, start)
        end = tf.where(is_whole, word_end, end)
        answer = tf.strings.substr(context, start, end - start)
        answer = without_invalid_bytes(answer)
        start_char, end_char = (
            tf.strings.length(
                tf.strings.substr(context, tf.zeros_like(x), x),
                unit="UTF8_CHAR",
            )
            for x in (start, end)
        )
        return {
            "answer": tf.strings.regex_replace(answer, _BETWEEN_WORDS, " "),
            "start_byte": start,
            "end_byte": end,
            "start_char": start_char,
            "end_char": end_char,
            "score": tf.maximum(scores, tensor_ops.ZERO_PROB_LOGIT),
            "null_score": null_scores,
        }

    def _best_spans(
        self, questions: tf.RaggedTensor, contexts: tf.RaggedTensor
    ) -> list[tf.Tensor]:
        """Returns score, first and last token, and least null score, [B]."""
        windows = get_windows(
            questions.row_lengths(),
            contexts.row_lengths(),
            self.max_seq_length,
            self.config.doc_stride,
        )
        kinds = (tf.float32, tf.int32, tf.int32, tf.float32)
        *spans, null_scores = in_blocks(
            tf.size(windows.questions),
            lambda rows: self._search_block(
                Windows(*(x[rows] for x in windows)), questions, contexts
            ),
            [tf.TensorSpec([None], kind) for kind in kinds],
        )
        counts = tf.math.bincount(
            windows.questions, minlength=questions.nrows(tf.int32)
        )
        grouped = tf.RaggedTensor.from_row_lengths(spans[0], counts)
        scores = tf.pad(
            grouped.to_tensor(-float("inf")),
            [[0, 0], [0, 1]],  # a column for argmax, even without questions
            constant_values=-float("inf"),
        )
        best = tf.argmax(scores, -1, tf.int32)
        best += tf.cumsum(counts, exclusive=True)
        null_scores = tf.reduce_min(grouped.with_values(null_scores), 1)
        return [*(tf.gather(x, best) for x in spans), null_scores]

    def _search_block(
        self,
        windows: Windows,
        questions: tf.RaggedTensor,
        contexts: tf.RaggedTensor,
    ) -> tuple[tf.Tensor, ...]:
        """Returns score, first and last token, and null score, [R] each."""
        questions = tf.gather(questions, windows.questions)
        begins = tf.gather(contexts.row_starts(), windows.questions)
        begins = tf.cast(begins, tf.int32) + windows.starts
        tokens = tf.ragged.range(begins, begins + windows.sizes)
        batch = pack_rows(
            questions,
            tf.gather(contexts.values, tokens),  # [R, (tokens)]
            self.tokenizer.vocabulary,
            self.max_seq_length,
            is_padded=False,
        )
        offsets = 2 + tf.cast(questions.row_lengths(), tf.int32)  # of contexts
        length = tensor_ops.shape_of(batch["input_ids"])[1]
        places = tf.range(length) - offsets[:, tf.newaxis]  # [R, L]
        in_context = (places >= 0) & (places < windows.sizes[:, tf.newaxis])
        can_start = in_context & is_max_context(windows, places)
        outputs = self.outputs(batch)
        starts, ends, start_scores, end_scores, is_valid = qa_heads.find_spans(
            outputs, in_context, can_start, self.config
        )
        scores = start_scores[..., tf.newaxis] + end_scores
        scores = tf.where(is_valid, scores, -float("inf"))  # [R, K, K']
        num_rows, num_starts, num_ends = tensor_ops.shape_of(scores)
        flat = [num_rows, num_starts * num_ends]
        scores = tf.reshape(scores, flat)
        best = tf.argmax(scores, -1, tf.int32)  # [R]
        shift = windows.starts - offsets
        return (
            tf.gather(scores, best, batch_dims=1),
            shift + tf.gather(starts, best // num_ends, batch_dims=1),
            shift + tf.gather(tf.reshape(ends, flat), best, batch_dims=1),
            qa_heads.null_scores(outputs),
        )
