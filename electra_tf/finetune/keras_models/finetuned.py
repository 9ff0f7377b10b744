"""Reading fine-tuned checkpoints: the encoder, a head and its task."""

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras

from electra_tf.checkpoint import checkpoint_formats
from electra_tf.checkpoint.weights import Weights, select
from electra_tf.finetune import task_description
from electra_tf.util import trial_directories
from electra_tf.util.errors import UserError

_HEADS = {
    frozenset({"dense"}): "electra",
    frozenset({"classifier/dense", "classifier/out_proj"}): "hugging_face",
}


class Finetuned(NamedTuple):
    """A fine-tuned encoder with the head of one task.

    Attributes:
      weights: of encoder and head.
      task: name of the task and of the head.
      metadata: the task's part of `task.json`; empty where there is none.
      source_format: one of `checkpoint_formats.FORMATS`.
      config: the configuration in `task.json`; empty where there is none.
    """

    weights: Weights
    task: str
    metadata: Mapping[str, Any]
    source_format: str
    config: Mapping[str, Any]

    @property
    def modules(self) -> Mapping[str, tuple[int, ...]]:
        """The dense layers of the head: name -> shape of the kernel."""
        return self.weights.architecture.tasks[self.task]

    @property
    def head(self) -> str:
        """The kind of a `ClassificationHead`; empty for any other head."""
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
        return self.metadata.get("kind", "")

    def restore(self, head: keras.layers.Layer) -> None:
        """Assigns the weights of the head, whatever its name.

        Args:
          head: of the same modules, built in the scope `task_specific`.
        """
        for variable in head.variables:
            name = variable.path.removeprefix(f"task_specific/{head.name}/")
            variable.assign(
                self.weights.arrays[f"task_specific/{self.task}/{name}"]
            )


def read(path: str, task: str = "", *, vocab_file: str = "") -> Finetuned:
    """Reads a fine-tuned model.

    Args:
      path: a trial of `run_finetuning`, or the directory `model` in it; or a
        directory of Hugging Face.
      task: name of the task, of a model of several. Default: the only one.
      vocab_file: vocabulary of the encoder. Default: the one beside the
        checkpoint.

    Raises:
      UserError: if there is no such model.
    """
    path = trial_directories.find_model(path)
    found = checkpoint_formats.read(path, vocab_file=vocab_file)
    heads = found.architecture.tasks
    name = task or next(iter(heads), "")
    if name not in heads or (len(heads) > 1 and not task):
        raise UserError(
            "A checkpoint must hold the head of one task, or of one that "
            f"`task` names. Received: {found.origin} with "
            f"{', '.join(heads) or 'none'}, task={task!r}."
        )
    metadata, config = {}, {}
    if (pathlib.Path(path) / task_description.FILE_NAME).exists():
        description = task_description.read(pathlib.Path(path))
        metadata, config = description["tasks"][name], description["config"]
    weights = select(found, "discriminator")
    source_format = checkpoint_formats.format_of(path)
    return Finetuned(weights, name, metadata, source_format, config)
