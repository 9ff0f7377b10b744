"""From question and context to the best span of tokens, inside a graph.

It makes the rows of `qa_rows` and finds the spans of `answer_spans`, for the
best answer alone, so that exports need no Python. A context of any length is
read in windows, with one block of them in memory at a time.

Letters in shapes: B questions, W windows of all questions, R windows in a
block, L tokens in a row, K places in a beam.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.qa import answer_spans
from electra_tf.model import tensor_ops
from electra_tf.model.text_reader import Ids
from electra_tf.serving.saved_models import in_blocks

Tensors = Mapping[str, tf.Tensor]


class Windows(NamedTuple):
    """Parts of contexts, those of a question one after the other.

    Shapes: questions [W], starts [W], steps [W], capacities [W], totals [W].
    """

    questions: tf.Tensor
    starts: tf.Tensor
    steps: tf.Tensor
    capacities: tf.Tensor
    totals: tf.Tensor

    @property
    def sizes(self) -> tf.Tensor:
        """Tokens in each, int32 [W]."""
        return tf.minimum(self.capacities, self.totals - self.starts)

    def block(self, rows: slice) -> "Windows":
        """Takes some of the windows."""
        return Windows(*(x[rows] for x in self))


class BestSpans(NamedTuple):
    """The best span of each row, or of each question."""

    scores: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor
    null_scores: tf.Tensor


class ContextSearch:
    """Finds the best span of each context."""

    def __init__(
        self,
        rows: Callable[[tf.RaggedTensor, tf.RaggedTensor], Ids],
        config: QAConfig,
        max_seq_length: int,
        outputs: Callable[[Ids], Tensors],
    ) -> None:
        self.rows = rows
        self.config = config.fitted(max_seq_length)
        self.max_seq_length = max_seq_length
        self.outputs = outputs

    def find(
        self, questions: tf.RaggedTensor, contexts: tf.RaggedTensor
    ) -> BestSpans:
        """Finds the spans.

        Shapes: returns [B].
        """
        questions = questions[:, : self.config.max_query_length]
        windows = self.windows(questions, contexts)
        kinds = (tf.float32, tf.int32, tf.int32, tf.float32)
        found = in_blocks(
            tf.size(windows.questions),
            lambda rows: self._search_block(
                windows.block(rows), questions, contexts
            ),
            [tf.TensorSpec([None], kind) for kind in kinds],
        )
        counts = tf.math.bincount(
            windows.questions, minlength=questions.nrows(tf.int32)
        )
        return _best_of_groups(BestSpans(*found), counts)

    def windows(
        self, questions: tf.RaggedTensor, contexts: tf.RaggedTensor
    ) -> Windows:
        """Covers contexts with windows, as `qa_rows.get_windows`."""
        totals = tf.cast(contexts.row_lengths(), tf.int32)
        sizes = tf.cast(questions.row_lengths(), tf.int32)
        capacities = self.max_seq_length - 3 - sizes
        steps = tf.minimum(capacities, self.config.doc_stride)
        rest = tf.maximum(totals - capacities, 0)
        counts = 1 + (rest + steps - 1) // steps
        owners = tf.repeat(tf.range(tf.size(counts)), counts)  # [W]
        before = tf.gather(tf.cumsum(counts, exclusive=True), owners)
        numbers = tf.range(tf.size(owners)) - before
        steps, capacities, totals = (
            tf.gather(x, owners) for x in (steps, capacities, totals)
        )
        return Windows(owners, numbers * steps, steps, capacities, totals)

    def _search_block(
        self,
        windows: Windows,
        questions: tf.RaggedTensor,
        contexts: tf.RaggedTensor,
    ) -> BestSpans:
        """Returns the best span of each of some windows, [R]."""
        questions = tf.gather(questions, windows.questions)
        begins = tf.gather(contexts.row_starts(), windows.questions)
        begins = tf.cast(begins, tf.int32) + windows.starts
        tokens = tf.ragged.range(begins, begins + windows.sizes)
        parts = tf.gather(contexts.values, tokens)  # [R, (tokens)]
        ids = self.rows(questions, parts)
        offsets = 2 + tf.cast(questions.row_lengths(), tf.int32)  # of contexts
        length = tensor_ops.shape_of(ids["input_ids"])[1]
        places = tf.range(length) - offsets[:, tf.newaxis]  # [R, L]
        in_context = (places >= 0) & (places < windows.sizes[:, tf.newaxis])
        can_start = in_context & is_max_context(windows, places)
        outputs = self.outputs(ids)
        scores, first, last = _best_spans(
            outputs, in_context, can_start, self.config
        )
        shift = windows.starts - offsets
        null_scores = answer_spans.null_scores(outputs)
        return BestSpans(scores, first + shift, last + shift, null_scores)


def is_max_context(windows: Windows, places: tf.Tensor) -> tf.Tensor:
    """Says which tokens no other window shows with more context around.

    Shapes: places [R, L]; returns [R, L].
    """
    steps, capacities, totals, starts = (
        x[:, tf.newaxis, tf.newaxis]
        for x in (
            windows.steps,
            windows.capacities,
            windows.totals,
            windows.starts,
        )
    )
    reach = 1 + tf.reduce_max((windows.capacities - 1) // windows.steps)
    others = starts + tf.range(-reach, reach + 1) * steps  # [R, 1, 2 reach + 1]
    is_needed = others - steps + capacities < totals
    is_window = (others == 0) | ((others > 0) & is_needed)
    sizes = tf.minimum(capacities, totals - others)
    tokens = starts + places[..., tf.newaxis]  # [R, L, 1]
    shorter = tf.minimum(tokens - others, others + sizes - 1 - tokens)
    scores = tf.cast(shorter, tf.float64) + 0.01 * tf.cast(sizes, tf.float64)
    scores = tf.where(is_window & (shorter >= 0), scores, -1.0)
    return tf.argmax(scores, -1, tf.int32) == reach


def _best_spans(
    outputs: Tensors,
    in_context: tf.Tensor,
    can_start: tf.Tensor,
    config: QAConfig,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the best span of each row, as `answer_spans.find_spans`."""
    starts, ends, start_scores, end_scores = _beam(outputs, in_context, config)
    lengths = ends - starts[..., tf.newaxis] + 1  # [R, K, K]
    is_valid = (
        tf.gather(can_start, starts, batch_dims=1)[..., tf.newaxis]
        & tf.gather(in_context, ends, batch_dims=1)
        & (lengths >= 1)
        & (lengths <= config.max_answer_length)
    )
    scores = start_scores[..., tf.newaxis] + end_scores
    scores = tf.where(is_valid, scores, -float("inf"))
    num_rows, num_starts, num_ends = tensor_ops.shape_of(scores)
    flat = [num_rows, num_starts * num_ends]
    scores = tf.reshape(scores, flat)
    best = tf.argmax(scores, -1, tf.int32)  # [R]
    return (
        tf.gather(scores, best, batch_dims=1),
        tf.gather(starts, best // num_ends, batch_dims=1),
        tf.gather(tf.reshape(ends, flat), best, batch_dims=1),
    )


def _beam(
    outputs: Tensors, in_context: tf.Tensor, config: QAConfig
) -> tuple[tf.Tensor, ...]:
    """Returns starts and their scores [R, K], ends and theirs [R, K, K]."""
    if "start_top_index" in outputs:
        return (
            outputs["start_top_index"],
            outputs["end_top_index"],
            outputs["start_top_log_probs"],
            outputs["end_top_log_probs"],
        )
    length = tensor_ops.shape_of(in_context)[1]
    count = tf.minimum(config.n_best_size, length)
    start, end = (
        tf.math.top_k(
            tf.where(in_context, outputs[f"{side}_logits"], -float("inf")),
            count,
        )
        for side in ("start", "end")
    )
    each = tf.ones([1, count, 1], tf.int32)
    ends = each * end.indices[:, tf.newaxis]
    end_scores = tf.cast(each, tf.float32) * end.values[:, tf.newaxis]
    return start.indices, ends, start.values, end_scores


def _best_of_groups(spans: BestSpans, counts: tf.Tensor) -> BestSpans:
    """Returns the best span of each question, with its least null score."""
    grouped = tf.RaggedTensor.from_row_lengths(spans.scores, counts)
    scores = tf.pad(
        grouped.to_tensor(-float("inf")),
        [[0, 0], [0, 1]],  # a column for argmax, even without questions
        constant_values=-float("inf"),
    )
    best = tf.cumsum(counts, exclusive=True) + tf.argmax(scores, -1, tf.int32)
    scores, first, last = (tf.gather(x, best) for x in spans[:3])
    null_scores = tf.reduce_min(grouped.with_values(spans.null_scores), 1)
    return BestSpans(scores, first, last, null_scores)
