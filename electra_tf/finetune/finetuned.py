"""Reading fine-tuned models: the encoder, its heads and their tasks."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.loading import find_model
from electra_tf.checkpoint.weights import Weights, select
from electra_tf.finetune import task_description
from electra_tf.finetune.head import Head
from electra_tf.finetune.task_description import Description
from electra_tf.util.errors import UserError, shape_differences

_HEADS = {
    frozenset({"dense"}): "electra",
    frozenset({"classifier/dense", "classifier/out_proj"}): "hugging_face",
}


class Finetuned(NamedTuple):
    """A fine-tuned model, as read from a directory."""

    directory: str
    weights: Weights
    description: Description
    task: str = ""

    def of_task(self, task: str = "") -> Self:
        """Selects one of the model's tasks."""
        heads = self.weights.architecture.tasks
        name = task_description.select_task(heads, task, self.weights.origin)
        weights = select(self.weights, "discriminator")
        return self._replace(weights=weights, task=name)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The task's part of the description; empty if there is none."""
        return self.description["tasks"][self.task] if self.description else {}

    @property
    def modules(self) -> Mapping[str, tuple[int, ...]]:
        """The dense layers of the head: name -> shape of the kernel."""
        return self.weights.architecture.tasks[self.task]

    @property
    def head(self) -> str:
        """The kind of `ClassificationHead` with these layers; else empty."""
        return _HEADS.get(frozenset(self.modules), "")

    @property
    def num_outputs(self) -> int:
        """Outputs of the last layer."""
        return list(self.modules.values())[-1][-1]

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the outputs, in their order; empty if not known."""
        return tuple(self.metadata.get("labels") or self.weights.labels)

    @property
    def kind(self) -> str:
        """The task's `Task.KIND`; empty if not known."""
        is_theirs = loading.format_of(self.directory) == "hf"
        if is_theirs and not self.description and self.head == "electra":
            return "tagging"
        return self.metadata.get("kind", "")

    def restore(self, head: Head) -> None:
        """Assigns the task's weights to a built head of any name."""
        arrays = self.weights.arrays
        prefix = f"task_specific/{head.name}/"
        variables = {
            f"task_specific/{self.task}/{v.path.removeprefix(prefix)}": v
            for v in head.variables
        }
        expected = {name: list(v.shape) for name, v in variables.items()}
        found = {x: arrays[x].shape for x in expected if x in arrays}
        if text := shape_differences(expected, found):
            raise UserError(f"{self.weights.origin} has another head:{text}")
        for name, variable in variables.items():
            variable.assign(arrays[name])


def read(
    path: str | os.PathLike[str],
    *,
    vocab_file: str = "",
    is_described: bool = False,
) -> Finetuned:
    """Reads a fine-tuned model."""
    path = find_model(path)
    directory, description = pathlib.Path(path), {}
    if is_described or (directory / task_description.FILE_NAME).exists():
        description = task_description.read(directory)
    weights = loading.read(path, vocab_file=vocab_file)
    return Finetuned(path, weights, description)
