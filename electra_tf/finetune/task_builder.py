"""The built-in tasks by name, and the kinds of custom tasks."""

import difflib
from collections.abc import Mapping
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
    "classification": classification_tasks.ClassificationTask,
    "regression": classification_tasks.RegressionTask,
    "tagging": tagging_tasks.TaggingTask,
    "qa": qa_tasks.QATask,
}
"""The kinds of custom tasks, as `--task_kind` has them."""


def get_task(
    config: FinetuningConfig,
    name: str,
    tokenizer: TextTokenizer,
    **options: Any,  # noqa: ANN401
) -> Task:
    """Makes one of a configuration's tasks; `options` are those of `Task`."""
    _check_names(config)
    preset = TASKS.get(name)
    kind = preset.kind if preset else KINDS[config.columns.task_kind]
    return kind(name, config, tokenizer, preset=preset, **options)


def _check_names(config: FinetuningConfig) -> None:
    """Refuses unknown tasks, and files that the tasks would not read."""
    names, columns = config.task.task_names, config.columns
    custom = [name for name in names if name not in TASKS]
    if columns.is_custom:
        if len(custom) != 1:
            raise UserError(
                f"--task_kind={columns.task_kind} is for one task with a name "
                f"of its own, not for {', '.join(custom or names)}."
            )
    elif custom:
        near = difflib.get_close_matches(custom[0], TASKS, 1)
        hint = f"Did you mean {near[0]}?" if near else "Set --task_kind."
        raise UserError(f"Unknown task: {custom[0]}. {hint}")
    elif config.run.test_file:
        raise UserError("--test_file is for custom tasks.")
    elif columns.tfds_name and (len(names) > 1 or names[0] not in glue.TASKS):
        raise UserError("--tfds_name is for one task, of GLUE or custom.")
