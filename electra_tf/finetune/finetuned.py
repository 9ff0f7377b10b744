"""Fine-tuned models: encoder, heads and the tasks in `task.json`.

`task.json` makes the tasks without flags or training data. It holds "tasks",
name -> what `Task.describe` returns and the best threshold of answers, and
"config", the parts of the configuration that define the tasks.
"""

import dataclasses
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.architecture import Architecture
from electra_tf.checkpoint.loading import TASK_FILE, find_model
from electra_tf.checkpoint.weights import Weights, assign, select
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.data import answering
from electra_tf.data.answering import Answer, InputSource, Item
from electra_tf.finetune import task_builder
from electra_tf.finetune.classification.classification_tasks import MULTI_LABEL
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import Example, Features, TextTokenizer
from electra_tf.finetune.task import Head, Task
from electra_tf.model.layers import POLICIES
from electra_tf.util import files
from electra_tf.util.errors import UserError
from electra_tf.util.flags import build, flatten

# The parts of a configuration that a trained model can do without.
_TRAINING_PARTS = FinetuningConfig.FREE_PARTS | {"optimizer", "training"}
_DATA_SET_KEYS = ("eid", "label", "is_impossible", "qas_id")  # not of new text
# Dense layers of a head -> the kind of `ClassificationHead` that has them.
_HEADS = {
    frozenset({"dense"}): "electra",
    frozenset({"classifier/dense", "classifier/out_proj"}): "hugging_face",
}

Description = Mapping[str, Any]
"""The content of `task.json`."""


def describe(
    directory: pathlib.Path,
    weights: Weights,
    tasks: Sequence[Task],
    thresholds: Mapping[str, float | None],
) -> None:
    """Writes vocabulary, sizes and tasks beside the weights of a trial."""
    lengths = [weights.max_seq_length, *(x.max_seq_length for x in tasks)]
    described = dataclasses.replace(
        weights,
        origin=str(directory),
        arrays={},
        architecture=Architecture(encoder=weights.architecture.encoder),
        max_seq_length=weights.max_seq_length and max(lengths),
        labels=tasks[0].labels if len(tasks) == 1 else (),
        value_range=(),  # in `task.json`
    )
    loading.describe(directory, described)
    write_description(directory, tasks, thresholds)


def write_description(
    directory: pathlib.Path,
    tasks: Sequence[Task],
    thresholds: Mapping[str, float | None] = MappingProxyType({}),
) -> None:
    """Writes `task.json`, from which `make_task` works."""
    parts = dataclasses.asdict(tasks[0].config)
    config = {k: v for k, v in parts.items() if k not in _TRAINING_PARTS}
    described = {task.name: task.describe() for task in tasks}
    for name, threshold in thresholds.items():
        if threshold is not None:
            described[name]["threshold"] = threshold
    content = {"tasks": described, "config": config}
    files.write_json(directory / TASK_FILE, content)


def read_description(directory: pathlib.Path) -> Description:
    """Reads `task.json`."""
    path = directory / TASK_FILE
    description = files.read_json(path)
    stored = flatten(description["config"])
    if {*stored["task_names"]} != description["tasks"].keys():
        raise UserError(f"{path}: `tasks` and `task_names` differ.")
    return description


def make_task(
    description: Description, tokenizer: TextTokenizer, name: str = ""
) -> Task:
    """Makes a task of a trained model, by default the first, without data."""
    name = name or next(iter(description["tasks"]))
    metadata = description["tasks"][name]
    length = metadata["max_seq_length"]
    values = {
        **flatten(description["config"]),
        "data_dir": "nowhere",
        "model_name": "trained",
        "max_seq_length": length,
    }
    return task_builder.get_task(
        build(FinetuningConfig, values),
        name,
        tokenizer,
        longest=length,
        metadata=metadata,
    )


class Finetuned:
    """A task of a fine-tuned model in a directory, by default the only one."""

    def __init__(
        self, path: str | os.PathLike[str], task: str = "", vocab_file: str = ""
    ) -> None:
        self.directory = find_model(path)
        weights = loading.read(self.directory, vocab_file=vocab_file)
        tasks = weights.architecture.tasks
        if task not in tasks and (task or len(tasks) != 1):
            raise UserError(
                f"{weights.origin} has the tasks {', '.join(tasks) or 'none'}, "
                f"not {task!r}."
            )
        self.task = task or next(iter(tasks))
        self.weights = select(weights, "discriminator")
        self.modules = tasks[self.task]  # dense layer -> shape of its kernel
        self.head = _HEADS.get(frozenset(self.modules), "")
        self.num_outputs = [*self.modules.values()][-1][-1]
        self.description: Description = {}  # empty for models of others
        path = pathlib.Path(self.directory)
        if (path / TASK_FILE).exists():
            self.description = read_description(path)
            self.metadata = self.description["tasks"][self.task]
            return
        names = ("labels", "problem_type", "value_range")
        self.metadata = {name: getattr(weights, name) for name in names}
        if self.head == "hugging_face":
            is_set = weights.problem_type == MULTI_LABEL
            is_value = self.num_outputs == 1 and not is_set
            kind = "regression" if is_value else "classification"
            self.metadata["kind"] = kind
        elif self.head and loading.format_of(self.directory) == "hf":
            self.metadata["kind"] = "tagging"

    @property
    def kind(self) -> str:
        """The task's `Task.KIND`; empty if not known."""
        return self.metadata.get("kind", "")

    def make_task(self) -> Task:
        """Makes the task; one logit of Hugging Face's is a value of pairs."""
        tokenizer, known = TextTokenizer.of(self.weights), self.metadata
        if self.description:
            return make_task(self.description, tokenizer, self.task)
        if self.head != "hugging_face":
            raise UserError(f"{self.directory} is no finished trial.")
        longest = self.weights.architecture.encoder.max_position_embeddings
        names = [f"LABEL_{i}" for i in range(self.num_outputs)]
        metadata = {
            **known,
            "labels": known["labels"] or names,
            "value_range": known["value_range"] or (0.0, 1.0),
            "bounds": known["value_range"] or (-math.inf, math.inf),
            "max_seq_length": min(Task.DEFAULT_LENGTH, longest),
        }
        config = {
            "task_names": ("theirs",),
            "task_kind": self.kind,
            "text_b_column": "text_b" * (self.kind == "regression"),
            "head": self.head,
        }
        description = {"tasks": {"theirs": metadata}, "config": config}
        return make_task(description, tokenizer)

    def restore(self, head: Head) -> None:
        """Assigns the task's weights to a built head of any name."""
        old, new = (f"task_specific/{x}/" for x in (self.task, head.name))
        arrays = self.weights.arrays.items()
        assign(head, {name.replace(old, new): x for name, x in arrays})


class Predictor:
    """A fine-tuned model as a function of text.

    An answer has a "prediction" and, depending on the kind of task,

      classification  "probabilities" of all labels; if they are independent,
                      the prediction is a list of those above 0.5
      regression      nothing else: the prediction is the value
      tagging         the "words", and "confidences", the probability of each
                      of the predicted tags; those of spans are BIOES
      QA              the "question"; "nbest", the best spans with their
                      probabilities among these; and "null_odds", higher if
                      there is no answer, None if the model always gives one

    Example:
      predict = electra_tf.Predictor("models/small/.../sst_model_1")
      predict(["a fine film"])
      # [{"prediction": "1", "probabilities": {"0": 0.08, "1": 0.92}}]

    Args:
      path: directory of a finished trial, the directory `model` in it, or a
        sequence classifier of Hugging Face's.
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
        loaded = Finetuned(path, task)
        self.task = loaded.make_task()
        self.batch_size = batch_size
        encoder = loading.make(loaded.weights, POLICIES[precision]).encoder
        head = self.task.head()
        self.model = FinetuningModel(self.task.config, encoder, [head], seed=0)
        loaded.restore(head)

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
