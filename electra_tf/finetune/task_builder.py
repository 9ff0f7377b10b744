"""The tasks by their names; one line registers one."""

import difflib
from collections.abc import Mapping
from typing import Any

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.classification import glue
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.tagging import tagging_tasks
from electra_tf.finetune.task import Task
from electra_tf.util.errors import UserError

TASKS: Mapping[str, type[Task]] = {**glue.TASKS, **tagging_tasks.TASKS}


def check(config: FinetuningConfig) -> None:
    """Refuses a task that there is not.

    Raises:
      UserError: with the nearest name.
    """
    for name in config.task.task_names:
        if name not in TASKS:
            near = difflib.get_close_matches(name, TASKS, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UserError(
                f"`task_names` must be one of {', '.join(TASKS)}. Received: "
                f"task_names={name!r}.{hint}"
            )


def get_task(
    config: FinetuningConfig,
    tokenizer: TextTokenizer,
    *,
    longest: int,
    name: str = "",
    known: Mapping[str, Any] | None = None,
) -> Task:
    """Makes a task that a configuration names.

    Args:
      config: the whole configuration.
      tokenizer: of the encoder's vocabulary.
      longest: tokens in the longest row that the encoder can read.
      name: of the task. Default: the first.
      known: what it told of itself when a model was trained.

    Raises:
      UserError: if there is no such task, or rows would be too long.
    """
    check(config)
    name = name or config.task.task_names[0]
    return TASKS[name](name, config, tokenizer, longest=longest, known=known)
