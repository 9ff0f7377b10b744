"""Predictions for new text, from the directory of a trained model."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from electra_tf.checkpoint import loading
from electra_tf.data import answering
from electra_tf.data.answering import Answer, InputSource, Item
from electra_tf.finetune import finetuned
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import Example, Features, TextTokenizer
from electra_tf.model.layers import POLICIES
from electra_tf.util.errors import UserError

_DATA_SET_KEYS = ("eid", "label", "is_impossible", "qas_id")  # not of new text


class Predictor:
    """A fine-tuned model as a function of text.

    An answer has a "prediction" and, depending on the kind of task,

      classification  "probabilities" of all labels
      regression      nothing else: the prediction is the value
      tagging         the "words", and "confidences", the probability of each
                      of the predicted tags, which are in the encoding of the
                      training rows: BIOES, BIO or IOB1
      QA              the "question"; "nbest", the best spans with their
                      probabilities among these; and "null_odds", higher if
                      there is no answer, None if the model always gives one

    Example:
      predict = electra_tf.Predictor("models/small/.../sst_model_1")
      predict(["a fine film"])
      # [{"prediction": "1", "probabilities": {"0": 0.08, "1": 0.92}}]

    Args:
      path: directory of a finished trial, or the directory `model` in it.
      task: name of the task, if the model has several.
      batch_size: texts per batch; no answer depends on it.
      precision: of the encoder's matrix products; "bfloat16" is faster if the
        hardware supports it, and changes answers in the third digit.

    Raises:
      UserError: if there is no such model or task.

    Attributes:
      task: the task that it answers.
      model: the encoder with the head of the task.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        task: str = "",
        batch_size: int = 64,
        precision: str = "float32",
    ) -> None:
        loaded = finetuned.read(path).of_task(task)
        if not loaded.description:
            raise UserError(f"{loaded.directory} is no finished trial.")
        self.task = finetuned.make_task(
            loaded.description, TextTokenizer.of(loaded.weights), loaded.task
        )
        self.batch_size = batch_size
        encoder = loading.make(loaded.weights, POLICIES[precision]).encoder
        head = self.task.head().build_for(encoder.config.hidden_size)
        loaded.restore(head)
        self.model = FinetuningModel(
            self.task.config, encoder, [head], seed=0, num_train_steps=1
        )

    def __call__(self, items: Iterable[Item]) -> list[Answer]:
        """Returns the answer to each item."""
        return list(self.stream(items))

    def stream(self, items: Iterable[Item]) -> Iterator[Answer]:
        """Yields the answer to each item; one block is in memory at a time."""
        if isinstance(items, str | Mapping) or hasattr(items, "columns"):
            raise UserError(
                f"`items` must be a list of inputs, not {items!r:.60}."
            )
        source = answering.of_items(items, self.task.input_spec)
        for block in self.blocks(source):
            yield from (answer for _, answer in block)

    def blocks(self, source: InputSource) -> Iterator[list[tuple[int, Answer]]]:
        """Yields blocks of pairs of a row's number and its answer."""
        return answering.answer_blocks(
            source, self.task.make_example, self.answer
        )

    def answer(self, examples: Sequence[Example]) -> list[Answer]:
        """Returns the answers to examples, numbered from 0."""
        features = Features(self.task.featurize(examples, is_training=False))
        outputs = self.model.outputs_of(
            self.task.name, features, self.batch_size
        )
        return [
            {k: v for k, v in answer.items() if k not in _DATA_SET_KEYS}
            for answer in self.task.answers(outputs, examples)
        ]
