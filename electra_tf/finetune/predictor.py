"""Answers about new text, from the directory of a trained model."""

import contextlib
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from electra_tf.checkpoint import loading
from electra_tf.data.answering import At
from electra_tf.data.formats.inputs import (
    InputSource,
    InputSpec,
    Item,
    inputs_of,
)
from electra_tf.data.formats.rows import BadRowError
from electra_tf.finetune import finetuned, task_description
from electra_tf.finetune.examples import Example
from electra_tf.finetune.features import Features
from electra_tf.finetune.finetuned import Finetuned
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.task import Task
from electra_tf.model.layers import POLICIES
from electra_tf.util.errors import UserError, shown

BLOCK_SIZE = 1024
"""Items in memory at once; a block is sorted by length into batches."""

_OF_DATA_SETS = ("eid", "label", "qas_id")  # what new text has not

Answer = dict[str, Any]
"""A prediction as JSON values; see `Predictor`."""


class Predictor:
    """A fine-tuned model, or an ensemble of several, as a function of text.

    An answer has a "prediction" and, by the kind of the task,

      classification  "probabilities" of all labels
      regression      nothing else: the prediction is the value
      tagging         the "words", and "confidences", the probability of each
                      of the predicted tags, which are in the encoding of the
                      training rows: BIOES, BIO or IOB1
      QA              the "question"; "nbest", the best spans with their
                      probabilities among these; and "null_odds", more where
                      there is no answer, None if the model always gives one

    Example:
      predict = electra_tf.Predictor("models/small/.../sst_model_1")
      predict(["a fine film"])
      # [{"prediction": "1", "probabilities": {"0": 0.08, "1": 0.92}}]

    Args:
      path: directory of a trial that is done, or the directory `model` in it;
        several of them, or with commas between, are an ensemble.
      task: of those that the model has learnt. Default: the only one.
      batch_size: texts at once; no answer depends on it.
      precision: of the encoder's matrix products; "bfloat16" is faster where
        the machine has it, and changes answers in the third digit.

    Raises:
      UserError: if there is no such model or task, or if the models of an
        ensemble differ in task or tokenizer.

    Attributes:
      task: that is answered.
      models: of the ensemble, or the only one.
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
            path = [part for part in path.split(",") if part]
        paths = [path] if isinstance(path, os.PathLike) else path
        loaded = [_read(part) for part in paths]
        self.task = _make_task(loaded, task)
        self.batch_size = batch_size
        self.models = [
            _model(self.task, part, POLICIES[precision]) for part in loaded
        ]
        self._scorer = self.task.get_scorer()

    @property
    def input_spec(self) -> InputSpec:
        """The inputs that an item must have."""
        return self.task.input_spec

    def __call__(self, items: Iterable[Item]) -> list[Answer]:
        """Returns the answer to each item.

        Args:
          items: texts; pairs of texts, where the task is of pairs; lists of
            words or texts with white space between, where it tags; pairs
            of question and context; or mappings from `input_spec.names`.

        Raises:
          UserError: telling the number of an item, from 1, that is of another
            kind.
        """
        return list(self.stream(items))

    def stream(self, items: Iterable[Item]) -> Iterator[Answer]:
        """Yields the answer to each item, a block in memory at once."""
        if isinstance(items, str | Mapping) or hasattr(items, "columns"):
            raise UserError(
                "`items` must be a sequence of what is to be answered. "
                f"Received: a single {type(items).__name__}, {shown(items)}. "
                "Put one item in a list; of a table, give a column."
            )
        parse = functools.partial(inputs_of, spec=self.input_spec)
        source = InputSource("items", enumerate(items, start=1), parse)
        for block in self.blocks(source, _refused_with_its_number):
            yield from (answer for _, answer in block)

    def blocks(
        self, source: InputSource, at: At
    ) -> Iterator[list[tuple[int, Answer]]]:
        """Yields blocks of the numbers of rows and their answers.

        Args:
          source: of the rows.
          at: the context in which a row is read.
        """
        rows = iter(source.rows)
        size = 1 if source.is_live else BLOCK_SIZE
        while block := list(itertools.islice(rows, size)):
            numbers, examples = [], []
            for number, content in block:
                with at(number):
                    inputs = source.parse(content)
                    example = self.task.make_example(len(examples), inputs)
                    examples.append(example)
                    numbers.append(number)
            yield list(zip(numbers, self._answers(examples), strict=True))

    def _answers(self, examples: Sequence[Example]) -> list[Answer]:
        """Returns the answers to examples, numbered from 0."""
        if not examples:
            return []
        rows = self.task.featurize(examples, is_training=False)
        features = Features(rows, self.task.get_feature_specs())
        outputs = [
            model.outputs_of(self.task.name, features, self.batch_size)
            for model in self.models
        ]
        several = len(outputs) > 1
        joined = self._scorer.combine(outputs) if several else outputs[0]
        return [
            {k: v for k, v in answer.items() if k not in _OF_DATA_SETS}
            for answer in self._scorer.answers(joined, examples)
        ]


@contextlib.contextmanager
def _refused_with_its_number(number: int) -> Iterator[None]:
    try:
        yield
    except BadRowError as error:
        raise UserError(f"Item {number}: {error}") from error


def _read(path: str | os.PathLike[str]) -> Finetuned:
    found = finetuned.read(path, is_described=True)
    if found.weights.vocabulary is None:
        raise UserError(
            f"{found.directory} must hold the vocabulary of its model. "
            "Received: none. Copy it there from the directory of the encoder."
        )
    return found


def _make_task(loaded: Sequence[Finetuned], name: str) -> Task:
    """Makes the task of all models, which must be one."""
    if not loaded:
        raise UserError(
            "`model` must name the directory of a trained model. Received: "
            "nothing. Set --model."
        )
    first, *others = loaded
    name = task_description.choose(first.description, name)
    for other in others:
        if _decisive(first, name) != _decisive(other, name):
            raise UserError(
                "The models of an ensemble must have the same task, labels, "
                "length of rows and vocabulary. Received: "
                f"{first.directory}, of {name}, and {other.directory}, of "
                f"{', '.join(other.description['tasks'])}."
            )
    tokenizer = TextTokenizer.of(first.weights)
    return task_description.make_task(first.description, tokenizer, name=name)


def _decisive(model: Finetuned, task: str) -> tuple[Any, ...]:
    """Returns what the models of an ensemble must have in common."""
    weights, tasks = model.weights, model.description["tasks"]
    switches = (weights.do_lower_case, weights.strip_accents)
    return (tasks.get(task), weights.vocabulary, *switches)


def _model(task: Task, found: Finetuned, policy: str) -> FinetuningModel:
    """Makes the layers and gives them their weights."""
    encoder = loading.make(found.weights, policy).encoder
    head = task.head().build_for(encoder.config.hidden_size)
    found._replace(task=task.name).restore(head)
    return FinetuningModel(
        task.config, encoder, [head], seed=0, num_train_steps=1
    )
