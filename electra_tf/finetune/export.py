"""Exports a trained model as SavedModels that run without electra_tf.

docs/serving.md lists the inputs and outputs of the signatures by kind of task.

Letters in shapes: B rows or questions, W windows of all questions, R windows in
a block, L tokens in a row, C classes.
"""

import abc
from typing import ClassVar

import tensorflow as tf
from etils import epath

from electra_tf.finetune.classification.classification_tasks import (
    ClassificationTask,
    RegressionTask,
)
from electra_tf.finetune.finetuned import Predictor
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import Batch
from electra_tf.finetune.qa import qa_heads
from electra_tf.finetune.qa.qa_files import SPACES
from electra_tf.finetune.qa.qa_rows import (
    Windows,
    alignment,
    get_windows,
    is_max_context,
    token_borders,
)
from electra_tf.finetune.qa.qa_tasks import QATask
from electra_tf.finetune.tagging.tagging_tasks import TaggingTask
from electra_tf.finetune.task import Task
from electra_tf.model import tensor_ops
from electra_tf.model.graph_tokenization import (
    pack_rows,
    split_words,
    value_of_row,
    without_invalid_bytes,
    without_nul,
)
from electra_tf.serving import saved_models
from electra_tf.serving.saved_models import Outputs
from electra_tf.util import files

_BETWEEN_WORDS = f"[{SPACES}]+"
_WHITE_SPACE = r"[\p{Z}\x09-\x0d\x1c-\x20\x{85}]+"  # as in Python's split


def export(predictor: Predictor, directory: epath.Path) -> list[epath.Path]:
    """Writes a model as two SavedModels."""
    served, labels = served_model(predictor), predictor.task.labels
    paths = saved_models.export(
        directory,
        {"serving_default": served.answer_texts},
        {"serving_default": served.answer},
        text_names=served.TEXT_NAMES[: len(predictor.task.input_names)],
        assets=served.tokenizer.assets,
        layers=[served.model.encoder, served.head],
    )
    if labels:
        lines = "".join(f"{label}\n" for label in labels)
        files.atomic_write_text(directory / "labels.txt", lines)
    return paths


def served_model(predictor: Predictor) -> "ServedModel":
    kinds = {
        "classification": _Classifier,
        "regression": _Regressor,
        "tagging": _Tagger,
        "question answering": QuestionAnswerer,
    }
    return kinds[predictor.task.KIND](predictor.task, predictor.model)


class ServedModel(abc.ABC):
    """A model that answers rows of ids and texts."""

    TEXT_NAMES: ClassVar[tuple[str, ...]] = ("text", "text_b")

    def __init__(self, task: Task, model: FinetuningModel) -> None:
        self.task = task
        self.model = model
        self.head = model.heads[task.name]
        self.tokenizer = task.tokenizer.in_graph

    @abc.abstractmethod
    def answer(self, batch: Batch) -> Outputs:
        """Answers rows of ids."""

    def answer_texts(self, *texts: tf.Tensor) -> Outputs:
        """Answers texts, or pairs of texts, string [B] each."""
        return self.answer(self.rows(*map(self.tokenizer.tokenize, texts)))

    def outputs(self, batch: Batch) -> Outputs:
        """Computes the outputs of the head."""
        return self.model.outputs(self.task.name, batch)

    def rows(
        self, first: tf.RaggedTensor, second: tf.RaggedTensor | None = None
    ) -> Batch:
        """Makes rows of tokens, padded to the longest."""
        return pack_rows(
            first,
            second,
            self.task.tokenizer.vocabulary,
            self.task.max_seq_length,
            is_padded=False,
        )


class _Classifier(ServedModel):
    task: ClassificationTask

    def answer(self, batch: Batch) -> Outputs:
        labels, logits = self.task.labels, self.outputs(batch)["logits"]
        if self.task.is_multi_label:
            places = tf.where(logits > 0, 1 + tf.range(len(labels)), 0)
            return {  # "" in the place of a label that is not in the set
                "prediction": tf.gather(["", *labels], places),
                "probabilities": tf.sigmoid(logits),
            }
        probabilities = tf.nn.softmax(logits)
        return {
            "prediction": tf.gather(labels, tf.argmax(probabilities, -1)),
            "probabilities": probabilities,
        }


class _Regressor(ServedModel):
    task: RegressionTask

    def answer(self, batch: Batch) -> Outputs:
        low, high = self.task.value_range
        values = low + self.outputs(batch)["logits"][:, 0] * (high - low)
        return {"prediction": tf.clip_by_value(values, *self.task.bounds)}


class _Tagger(ServedModel):
    task: TaggingTask

    def answer(self, batch: Batch) -> Outputs:
        is_real = tf.expand_dims(batch["input_mask"] > 0, -1)
        tokens = self.model.states(batch, None).sequence_output
        probabilities = tf.nn.softmax(self.head.dense(tokens))  # [B, L, C]
        return {"probabilities": tf.where(is_real, probabilities, 0.0)}

    def answer_texts(self, text: tf.Tensor) -> Outputs:
        text = tf.strings.regex_replace(text, _WHITE_SPACE, " ")
        words = tf.strings.split(text)  # [B, (words)]
        pieces = self._pieces(words.values)  # [all words, (pieces)]
        tokens = words.with_values(pieces).merge_dims(1, 2)  # [B, (tokens)]
        batch = self.rows(tokens)
        batch["segment_ids"] = batch["input_mask"]  # as in training
        sizes = pieces.row_lengths()
        before = tf.gather(tokens.row_starts(), words.value_rowids())
        starts = tf.cumsum(sizes, exclusive=True) - before
        fits = starts + sizes <= self.task.max_seq_length - 2
        places = words.with_values(tf.where(fits, 1 + starts, 0)).to_tensor()
        fits = words.with_values(fits).to_tensor()  # [B, words]
        batch["labeled_positions"] = tf.cast(places, tf.int32)
        probabilities = tf.nn.softmax(self.outputs(batch)["logits"])
        tags = tf.gather(self.task.labels, tf.argmax(probabilities, -1))
        return {
            "words": words.to_tensor(),
            "prediction": tf.where(fits, tags, ""),
            "confidences": tf.where(
                fits, tf.reduce_max(probabilities, -1), 0.0
            ),
        }

    def _pieces(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Returns the tokens of words, [UNK] for those that have none."""
        pieces = self.tokenizer.tokenize(words)
        is_empty = pieces.row_lengths()[:, tf.newaxis] == 0
        unknown = self.task.tokenizer.vocabulary.unk_id
        unknown = tf.fill(tf.shape(is_empty), unknown)
        filler = tf.ragged.boolean_mask(unknown, is_empty)
        return tf.concat([pieces, filler], 1)[:, : self.task.max_seq_length - 2]


class QuestionAnswerer(ServedModel):
    """Finds the best span of each context, and its characters."""

    TEXT_NAMES = ("question", "context")
    task: QATask

    def answer(self, batch: Batch) -> Outputs:
        return self.outputs(batch)

    def answer_texts(self, question: tf.Tensor, context: tf.Tensor) -> Outputs:
        tokenize = self.tokenizer.tokenize
        words, starts, ends = split_words(context, _BETWEEN_WORDS)
        pieces = tokenize(words.values)  # [all words, (tokens)]
        tokens = words.with_values(pieces).merge_dims(1, 2)  # [B, (tokens)]
        questions = tokenize(question)[:, : self.task.qa.max_query_length]
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
            borders = token_borders(without_nul(text), self.tokenizer)
            in_word = (
                value_of_row(x, rows, token - first, has_span) for x in borders
            )
            return [begin, end, *(begin + x for x in in_word)]

        word_start, _, start, _ = place(first)
        _, word_end, _, end = place(last)
        span = begins + first, begins + tf.where(has_span, last + 1, first)
        ids = tf.gather(tokens.values, tf.ragged.range(*span))
        text = tf.strings.substr(context, word_start, word_end - word_start)
        change, is_unspaced = alignment(without_nul(text), self.tokenizer)
        unknown = self.task.tokenizer.vocabulary.unk_id
        is_whole = tf.reduce_any(ids == unknown, 1) | (change != 0)
        is_whole = is_whole & ~is_unspaced | (end <= start)
        start = tf.where(is_whole, word_start, start)
        end = tf.where(is_whole, word_end, end)
        answer = tf.strings.substr(context, start, end - start)
        answer = without_invalid_bytes(answer)
        start_char, end_char = (
            tf.strings.length(tf.strings.substr(context, 0 * x, x), "UTF8_CHAR")
            for x in (start, end)
        )
        outputs = {
            "answer": tf.strings.regex_replace(answer, _BETWEEN_WORDS, " "),
            "start_byte": start,
            "end_byte": end,
            "start_char": start_char,
            "end_char": end_char,
            "score": tf.maximum(scores, tensor_ops.ZERO_PROB_LOGIT),
        }
        if not self.task.columns.has_unanswerable:
            return outputs
        if not self.head.answerable_classifier:
            null_scores -= tf.where(has_span, scores, 0.0)
        is_answered = null_scores <= self.task.threshold
        outputs["answer"] = tf.where(is_answered, outputs["answer"], "")
        return {**outputs, "null_score": null_scores}

    def _best_spans(
        self, questions: tf.RaggedTensor, contexts: tf.RaggedTensor
    ) -> list[tf.Tensor]:
        """Returns score, first and last token, and least null score, [B]."""
        windows = get_windows(
            questions.row_lengths(),
            contexts.row_lengths(),
            self.task.max_seq_length,
            self.task.qa.doc_stride,
        )
        kinds = (tf.float32, tf.int32, tf.int32, tf.float32)
        *spans, null_scores = saved_models.in_blocks(
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
        batch = self.rows(questions, tf.gather(contexts.values, tokens))
        offsets = 2 + tf.cast(questions.row_lengths(), tf.int32)  # of contexts
        length = tensor_ops.shape_of(batch["input_ids"])[1]
        places = tf.range(length) - offsets[:, tf.newaxis]  # [R, L]
        in_context = (places >= 0) & (places < windows.sizes[:, tf.newaxis])
        can_start = in_context & is_max_context(windows, places)
        outputs = self.answer(batch)
        starts, ends, start_scores, end_scores, is_valid = qa_heads.find_spans(
            outputs, in_context, can_start, self.task.qa
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
