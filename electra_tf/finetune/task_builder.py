"""The built-in tasks by name, and the kinds of custom tasks."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.classification import classification_tasks, glue
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa import qa_tasks
from electra_tf.finetune.tagging import tagging_tasks
from electra_tf.finetune.task import Preset, Task
from electra_tf.util.errors import UserError

TASKS: Mapping[str, Preset] = {
    **glue.TASKS,
    **qa_tasks.TASKS,
    **tagging_tasks.TASKS,
}

KINDS: Mapping[str, type[Task]] = {
    **classification_tasks.KINDS,
    **tagging_tasks.KINDS,
    **qa_tasks.KINDS,
}
"""The kinds of custom tasks, as `--task_kind` has them."""


def check(config: FinetuningConfig) -> None:
    """Refuses unknown tasks, and files that the tasks would not read."""
    names, columns = config.task.task_names, config.columns
    custom = [name for name in names if name not in TASKS]
    if columns.is_custom:
        _check_custom(config, custom)
    elif custom:
        near = difflib.get_close_matches(custom[0], TASKS, 1)
        hint = f"Did you mean {near[0]}? For" if near else "For"
        raise UserError(
            f"`task_names` must be one of {', '.join(TASKS)}. Received: "
            f"task_names={custom[0]!r}. {hint} a custom task set "
            f"--task_kind to {', '.join(KINDS)}."
        )
    if config.files.test_file and not columns.is_custom:
        raise UserError(
            "`test_file` is for custom tasks. Received: test_file="
            f"{config.files.test_file!r}, task_names={','.join(names)}. Put "
            "the test split into the directory of the task."
        )
    if columns.tfds_name and not columns.is_custom:
        _check_data_set(config)


def _check_data_set(config: FinetuningConfig) -> None:
    names = config.task.task_names
    if len(names) > 1 or names[0] not in glue.TASKS:
        raise UserError(
            "`tfds_name` must be used with one task, of GLUE or custom. "
            f"Received: tfds_name={config.columns.tfds_name!r}, task_names="
            f"{','.join(names)}. Put the files into the directory of each "
            "task, or set --task_kind."
        )


def _check_custom(config: FinetuningConfig, custom: Sequence[str]) -> None:
    names, kind = config.task.task_names, config.columns.task_kind
    if not custom:
        raise UserError(
            "A custom task must not have the name of a built-in one. Received: "
            f"task_names={','.join(names)}, task_kind={kind}. Give it another "
            "name, or leave --task_kind out for the built-in task."
        )
    if len(custom) > 1:
        raise UserError(
            "At most one custom task may be among `task_names`. "
            f"Received: {', '.join(custom)}. Train them one after the other."
        )


def get_task(
    config: FinetuningConfig,
    tokenizer: TextTokenizer,
    *,
    longest: int,
    name: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> Task:
    """Makes a task that a configuration names."""
    check(config)
    name = name or config.task.task_names[0]
    preset = TASKS.get(name)
    kind = preset.kind if preset else KINDS[config.columns.task_kind]
    return kind(
        name,
        config,
        tokenizer,
        longest=longest,
        preset=preset,
        metadata=metadata,
    )
