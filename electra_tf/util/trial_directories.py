"""Directories of fine-tuning trials and of their final models.

<task>_model_<number>                a trial
<task>_model_<number>_restart_<n>    the same, restarted after it failed
.../model/                           the final model
.../model/task.json                  description of its tasks
.../result.json                      written when the trial is done
"""

import glob
import os
import pathlib

from electra_tf.util import files, storage
from electra_tf.util.errors import UserError

MODEL = "model"
DESCRIPTION = "task.json"
RESULT = "result.json"

_RESTART = "_restart_"


def name(task_name: str, trial: int, restart: int) -> str:
    """Returns the name of a trial's directory."""
    return f"{task_name}_model_{trial}" + f"{_RESTART}{restart}" * bool(restart)


def task_directory(directory: storage.StrPath, task_name: str) -> pathlib.Path:
    """Returns the directory for files that are named after a run's tasks."""
    return pathlib.Path(directory, *[task_name] * ("+" in task_name))


def find_model(path: storage.StrPath) -> str:
    """Returns the model directory of a trial; any other path unchanged."""
    directory = pathlib.Path(path, MODEL)
    if not (directory / DESCRIPTION).exists():
        return os.fspath(path)
    trial = pathlib.Path(path).resolve()
    pattern = glob.escape(trial.name + _RESTART) + "*"
    if others := list(trial.parent.glob(f"{pattern}/{RESULT}")):
        last = max((x.parent for x in others), key=_restart)
        way_out = f"{last}, or {directory} for the model that failed"
        if files.read_object(last / RESULT).get("collapsed"):
            way_out = (
                f"{directory} for its model, or that of one of its restarts, "
                "which failed, too: the results say which of them counts"
            )
        raise UserError(
            f"{os.fspath(path)} must be a trial that did not fail. Received: "
            f"one that was restarted. Name {way_out}."
        )
    return os.fspath(directory)


def _restart(directory: pathlib.Path) -> int:
    number = directory.name.rpartition(_RESTART)[2]
    return int(number) if number.isdecimal() else 0
