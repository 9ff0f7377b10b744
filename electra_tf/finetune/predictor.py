"""Predictions for new text, from the directory of a trained model."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from electra_tf.checkpoint import bundles, loading
from electra_tf.config.columns import QAConfig
from electra_tf.data import answering
from electra_tf.data.answering import Answer, InputSource, Item
from electra_tf.finetune import finetuned
from electra_tf.finetune.finetuned import Finetuned
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import Example, Features, TextTokenizer
from electra_tf.finetune.task import Task
from electra_tf.model.layers import POLICIES
from electra_tf.util.errors import UserError, shorten_repr
from electra_tf.util.flags import flatten

_SETTINGS = ("head", "original_behaviour", *QAConfig.__dataclass_fields__)
_DATA_SET_KEYS = ("eid", "label", "is_impossible", "qas_id")  # not of new text


class Predictor:
    """A fine-tuned model, or an ensemble of several, as a function of text.

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
      path: directory of a finished trial, or the directory `model` in it;
        several, in a sequence or separated by commas, make an ensemble.
      task: name of the task, if the model has several.
      batch_size: texts per batch; no answer depends on it.
      precision: of the encoder's matrix products; "bfloat16" is faster if the
        hardware supports it, and changes answers in the third digit.

    Raises:
      UserError: if there is no such model or task, or if the models of an
        ensemble differ in task or tokenizer.

    Attributes:
      task: the task that it answers.
      models: the models of the ensemble, or the only one.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        task: str = "",
        batch_size: int = 64,
        precision: str = "float32",
    ) -> None:
        if isinstance(path, str):
            path = [part for part in bundles.split_paths(path) if part]
        paths = [path] if isinstance(path, os.PathLike) else path
        if not paths:
            raise UserError("Set --model.")
        loaded = [finetuned.read(part) for part in paths]
        self.task = _make_task(loaded, task)
        self.batch_size = batch_size
        self.models = []
        for part in loaded:
            encoder = loading.make(part.weights, POLICIES[precision]).encoder
            head = self.task.head().build_for(encoder.config.hidden_size)
            part._replace(task=self.task.name).restore(head)
            model = FinetuningModel(
                self.task.config, encoder, [head], seed=0, num_train_steps=1
            )
            self.models.append(model)
        self._scorer = self.task.get_scorer()

    def __call__(self, items: Iterable[Item]) -> list[Answer]:
        """Returns the answer to each item."""
        return list(self.stream(items))

    def stream(self, items: Iterable[Item]) -> Iterator[Answer]:
        """Yields the answer to each item; one block is in memory at a time."""
        if isinstance(items, str | Mapping) or hasattr(items, "columns"):
            raise UserError(
                f"`items` must be a list of inputs, not {shorten_repr(items)}."
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
        several = len(self.models) > 1
        outputs = [
            model.outputs_of(
                self.task.name,
                features,
                self.batch_size,
                without=() if several else self._scorer.ensemble_outputs,
            )
            for model in self.models
        ]
        joined = self._scorer.combine(outputs) if several else outputs[0]
        return [
            {k: v for k, v in answer.items() if k not in _DATA_SET_KEYS}
            for answer in self._scorer.answers(joined, examples)
        ]


def _make_task(models: Sequence[Finetuned], name: str) -> Task:
    """Makes the task, which all models must share."""
    for model in models:
        if not model.description:
            raise UserError(f"{model.directory} is no finished trial.")
    first, *others = models
    tokenizer = TextTokenizer.of(first.weights)
    task = finetuned.make_task(first.description, tokenizer, name=name)
    for model in others:
        if _ensemble_key(model, task.name) != _ensemble_key(first, task.name):
            raise UserError(
                f"{model.directory} is no ensemble with {first.directory}: "
                "task, settings or vocabulary differ."
            )
    finetuned.set_threshold(task, [x.description for x in models])
    return task


def _ensemble_key(model: Finetuned, task: str) -> tuple[Any, ...]:
    """Returns what the models of an ensemble must have in common."""
    weights, config = model.weights, flatten(model.description["config"])
    metadata = model.description["tasks"].get(task, {})
    return (
        {**metadata, "threshold": None},
        [config.get(name) for name in _SETTINGS],
        weights.vocabulary,
        weights.do_lower_case,
        weights.strip_accents,
    )
