"""Answers to questions, as spans of a context."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config.columns import QAConfig
from electra_tf.config.model import BertConfig
from electra_tf.finetune.finetuned import Finetuned
from electra_tf.finetune.keras_models.base import columns_of
from electra_tf.finetune.keras_models.task_model import BATCH_SIZE, TaskModel
from electra_tf.finetune.preprocessing import Batch, QAExample, Row
from electra_tf.finetune.qa.qa_files import Context, make_example
from electra_tf.finetune.qa.qa_heads import QAHead
from electra_tf.finetune.qa.qa_rows import COLUMNS, rows_of
from electra_tf.finetune.qa.qa_tasks import QAScorer, QATask
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

Questions = tuple[Sequence[str], Sequence[str]] | Sequence[tuple[str, str]]
"""Questions and their contexts, as two sequences or one of tuples."""
Answers = Sequence[tuple[int, str] | None]
"""Start in the context, in characters, and text of each answer; None for a
question without an answer."""


@keras.saving.register_keras_serializable("electra_tf")
class ElectraQA(TaskModel):
    """Answers questions by spans of a context, which is read in windows.

    Example:
      model = electra_tf.ElectraQA.from_checkpoint(path)
      model.compile()
      contexts = ["The film was made by Ann in May.", "It was a dull film."]
      questions = ["Who made it?", "When?"]
      model.fit((questions, contexts), [(21, "Ann"), None], epochs=3)
      model.answer((["When was it made?"], contexts[:1]))  # ["May"]

    The head computes the loss. `fit` and `evaluate` compute no metrics:
    `score` computes SQuAD's.

    Args, beside those of `ElectraModel`:
      has_unanswerable: whether questions may have no answer.
      head: "electra" for the original's, configured by `qa`, or
        "hugging_face" for one dense layer.
      qa: a `QAConfig`, or its fields. The default length of questions and
        stride depend on `max_seq_length`, see `QAConfig.fitted`.

    Returns:
      Name -> tensor [B, ...], outputs of the head for each window.
    """

    DEFAULT_EPOCHS = QATask.DEFAULT_EPOCHS
    DEFAULT_LENGTH = QATask.DEFAULT_LENGTH
    KIND = QATask.KIND
    OPTIONAL_INPUTS = COLUMNS

    def __init__(
        self,
        config: BertConfig,
        vocabulary: Vocabulary,
        *,
        has_unanswerable: bool = True,
        head: str = "electra",
        qa: QAConfig | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(config, vocabulary, **options)
        self.has_unanswerable = has_unanswerable
        if not isinstance(qa, QAConfig):
            removed = "drop_unanswered_windows"  # a field of version 0.1
            qa = QAConfig(
                **{k: v for k, v in (qa or {}).items() if k != removed}
            )
        self.qa = qa.fitted(self.max_seq_length)
        self.options = {
            "has_unanswerable": has_unanswerable,
            "head": head,
            "qa": dataclasses.asdict(self.qa),
        }
        self._add(QAHead, "answerer", head, self.qa)

    @classmethod
    def options_of(cls, found: Finetuned) -> dict[str, Any] | None:
        if "dense_1" not in found.modules:
            return None
        if not found.description:  # of Hugging Face
            is_plain = {*found.modules} == {"dense", "dense_1"}
            return {"head": "hugging_face"} if is_plain else None
        config, metadata = found.description["config"], found.metadata
        qa = dict(config["qa"])
        qa["qa_na_threshold"] = metadata.get("threshold", qa["qa_na_threshold"])
        return {
            "has_unanswerable": metadata["has_unanswerable"],
            "head": config["task"]["head"],
            "qa": qa,
        }

    def rows(self, x: Questions, y: Answers | None = None) -> Iterator[Row]:
        examples = self._examples(x, y)
        return rows_of(
            examples,
            self.tokenizer,
            self.qa,
            self.max_seq_length,
            is_training=y is not None,
        )

    def _examples(self, x: Questions, y: Answers | None) -> list[QAExample]:
        questions, texts = columns_of(x)
        answers = [None] * len(questions) if y is None else y
        contexts = {text: Context(text) for text in texts}
        examples = []
        for eid, (question, text, answer) in enumerate(
            zip(questions, texts, answers, strict=True)
        ):
            located = () if answer is None else ((answer[1], answer[0]),)
            example = make_example(
                eid,
                question,
                contexts[text],
                answers=[text for text, _ in located],
                located=located,
                is_impossible=not located,
            )
            if located and not example.is_found:  # it would learn "no answer"
                raise UserError(f"Question {eid}: {answer} is not in its text.")
            examples.append(example)
        return examples

    def outputs_of(self, head_outputs: Batch) -> dict[str, tf.Tensor]:
        return dict(head_outputs)

    def compute_loss(
        self,
        x: Batch,
        y: tf.Tensor | None = None,
        y_pred: Mapping[str, tf.Tensor] | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        losses = self.head.losses(y_pred, x)  # [B]
        if sample_weight is not None:
            losses *= sample_weight
        num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
        return tf.reduce_mean(losses) / num_replicas  # Keras sums replicas

    def answer(self, x: Questions, batch_size: int = BATCH_SIZE) -> list[str]:
        """Returns the answer to each question, empty where there is none."""
        examples = self._examples(x, None)
        answers = self._scorer.answers(self._outputs(x, batch_size), examples)
        return [answer["prediction"] for answer in answers]

    def score(
        self, x: Questions, y: Answers, batch_size: int = BATCH_SIZE
    ) -> dict[str, float]:
        """Computes SQuAD's metrics, in percent: 2.0's if `has_unanswerable`."""
        outputs = {"loss": np.zeros(1), **self._outputs(x, batch_size)}
        metrics = self._scorer.score(outputs, self._examples(x, y))
        return {k: value for k, value in metrics.items() if k != "loss"}

    @property
    def _scorer(self) -> QAScorer:
        threshold = None
        if self.has_unanswerable:
            threshold = self.qa.threshold(self.head.kind)
        return QAScorer(self.qa, self.tokenizer, threshold)

    def _outputs(self, x: Questions, batch_size: int) -> dict[str, np.ndarray]:
        rows = list(self.rows(x))
        outputs = self.predict(self._batches(rows, batch_size), verbose=0)
        return {**outputs, "eid": np.array([row["eid"] for row in rows])}
