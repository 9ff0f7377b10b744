"""Tensor bundles, TensorFlow's files of named arrays, and checkpoints of a run.

A bundle is named by a prefix: `<prefix>.index` has the offset of each array in
`<prefix>.data-00000-of-00001`. Ours are `model.ckpt-{step}`, with the names of
the original's variables, so that its code can read them.

Rules of a run's directory:
  1. An index exists only if the checkpoint is complete and flushed to disk.
  2. The newest checkpoint is found by trying them; the file `checkpoint` is
     written for other programs and never trusted.
  3. A checkpoint is removed only after a newer one is complete.
  4. Its weights are finite.
"""

import logging
import os
import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from etils import epath

from electra_tf.util import files
from electra_tf.util.errors import (
    NonFiniteLossError,
    UserError,
    listed,
    reason,
    shape_differences,
)

_INDEX = ".index"
_DATA = ".data-00000-of-00001"
_STATE = "checkpoint"
_STEP = re.compile(r".*-(\d+)")
# Errors that TensorFlow raises if a bundle is missing or damaged.
_READ_ERRORS = (tf.errors.OpError, IndexError, ValueError, RuntimeError)

_logger = logging.getLogger(__name__)


def find(path: str | os.PathLike[str]) -> epath.Path:
    """Returns the prefix of the bundle at a path, or the newest in it."""
    text = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", os.fspath(path))
    if epath.Path(text + _INDEX).exists():
        return epath.Path(text)
    directory = epath.Path(path)
    indexes = directory.glob(f"*{_INDEX}") if directory.is_dir() else ()
    prefixes = sorted(file.name.removesuffix(_INDEX) for file in indexes)
    steps = {int(m[1]): m[0] for p in prefixes if (m := _STEP.fullmatch(p))}
    if len(prefixes) == 1:
        return directory / prefixes[0]
    if steps and len(steps) == len(prefixes):
        return directory / steps[max(steps)]
    hub_id = re.match(r"[\w.-]+/[\w.-]+(?=$|,)", text)
    if hub_id and not directory.parent.exists():
        raise UserError(
            f"No directory {hub_id[0]}: download a model of the hub with `hf "
            f"download {hub_id[0]} --local-dir DIR` and give DIR."
        )
    raise UserError(
        f"{os.fspath(path)} is neither the prefix of a checkpoint nor a "
        f"directory that holds one: {listed(prefixes) or 'no index'}."
    )


def split_paths(paths: str) -> list[str]:
    """Splits comma-separated checkpoints; a comma in a path is kept."""
    is_one = any(epath.Path(paths + x).exists() for x in ("", _INDEX))
    return [paths] if is_one else paths.split(",")


def read(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Reads all arrays of the bundle at a path."""
    prefix = find(path)
    try:
        reader = _open(prefix)
        names = sorted(reader.get_variable_to_shape_map())
        return {name: np.asarray(reader.get_tensor(name)) for name in names}
    except _READ_ERRORS as error:
        raise OSError(f"{prefix}: {reason(error)}") from error


def _open(prefix: str | os.PathLike[str]) -> Any:  # noqa: ANN401 (of C++)
    path = os.fspath(prefix)
    path = path if files.is_remote(path) else os.path.abspath(path)
    return tf.compat.v1.train.NewCheckpointReader(path)


def write(
    prefix: str | os.PathLike[str],
    arrays: Mapping[str, tf.Tensor | np.ndarray],
) -> None:
    """Writes a bundle; a crash may leave a part of it."""
    with tf.device("CPU:0"):
        tf.raw_ops.SaveV2(
            prefix=os.fspath(prefix),
            tensor_names=list(arrays),
            shape_and_slices=[""] * len(arrays),
            tensors=[tf.convert_to_tensor(x) for x in arrays.values()],
        )


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        variables: Mapping[str, tf.Variable],
        *,
        keep_max: int = 5,
        milestones: Collection[int] = frozenset(),
    ) -> None:
        self.directory = epath.Path(directory)
        self.variables = dict(variables)
        self.keep_max = keep_max
        self.milestones = frozenset(milestones)

    def steps(self) -> list[int]:
        """Returns the steps that have an index, ascending."""
        if not self.directory.is_dir():
            return []
        indexes = self.directory.glob(f"model.ckpt-*{_INDEX}")
        names = (path.name.removesuffix(_INDEX) for path in indexes)
        return sorted(int(m[1]) for m in map(_STEP.fullmatch, names) if m)

    def save(self, step: int) -> epath.Path:
        """Writes the checkpoint of a step, then removes old ones."""
        self.check_finite(step)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._sweep()
            self._write(step)
            self._remove_old(step)
        except (OSError, tf.errors.OpError) as error:
            self._sweep()
            raise OSError(
                f"Step {step} is not saved in {self.directory}, where older "
                f"checkpoints are intact: {reason(error)}"
            ) from error
        return self._path(step)

    def check_finite(self, checkpoint: int | str) -> None:
        """Checks that all variables are finite; names a step or a path."""
        bad = [
            name
            for name, variable in self.variables.items()
            if variable.dtype.is_floating
            and not tf.reduce_all(tf.math.is_finite(variable.read_value()))
        ]
        if bad:
            raise NonFiniteLossError(
                f"Checkpoint {checkpoint} has infinite or NaN values in "
                f"{listed(bad)}. "
                f"{self.directory} has steps {self.steps()}: train on from "
                "one of them with a lower learning rate."
            )

    def restore_latest(self) -> int | None:
        steps = self.steps()
        for step in reversed(steps):
            try:
                self.restore(self._path(step))
                return step
            except OSError as error:
                _logger.warning("A checkpoint is skipped: %s", error)
        if steps or (self.directory / _STATE).exists():
            raise UserError(
                f"{self.directory} holds no checkpoint that can be read. "
                "Restore one, or start anew under another --model_name."
            )
        return None

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Assigns every variable from a checkpoint, or none."""
        shapes = {name: v.shape.as_list() for name, v in self.variables.items()}
        try:
            reader = _open(path)
            stored = reader.get_variable_to_shape_map()
            differences = shape_differences(shapes, stored)
            for name in () if differences else self.variables:
                self.variables[name].assign(reader.get_tensor(name))
        except _READ_ERRORS as error:
            raise OSError(f"{os.fspath(path)}: {reason(error)}") from error
        if differences:
            raise UserError(
                f"{os.fspath(path)} holds the variables of another "
                f"configuration:{differences}"
            )
        self.check_finite(os.fspath(path))

    def _path(self, step: int) -> epath.Path:
        return self.directory / f"model.ckpt-{step}"

    def _write(self, step: int) -> None:
        """Writes the checkpoint of a step; its index appears last."""
        path = self._path(step)
        unfinished = path.with_name(f"tmp-{path.name}")
        values = {name: v.read_value() for name, v in self.variables.items()}
        write(unfinished, values)
        for ending in (_DATA, _INDEX):
            files.sync(f"{unfinished}{ending}")
        for ending in (_DATA, _INDEX):
            epath.Path(f"{unfinished}{ending}").replace(f"{path}{ending}")
        files.sync(self.directory)

    def _sweep(self) -> None:
        """Removes remains of killed runs: unfinished files, data alone."""
        for path in self.directory.glob("tmp-*"):
            if path.name.startswith(("tmp-model.ckpt-", f"tmp-{_STATE}-")):
                path.rmtree() if path.is_dir() else path.unlink()
        for path in self.directory.glob(f"model.ckpt-*{_DATA}"):
            index = path.name.removesuffix(_DATA) + _INDEX
            if not path.with_name(index).exists():
                path.unlink()

    def _remove_old(self, newest: int) -> None:
        """Lists the kept checkpoints in the state file, removes the rest."""
        steps = [step for step in self.steps() if step <= newest]
        recent = steps[-self.keep_max :]  # all of them for 0
        kept = [s for s in steps if s in recent or s in self.milestones]
        lines = [f'model_checkpoint_path: "{self._path(newest).name}"\n']
        for step in kept:
            name = self._path(step).name
            lines.append(f'all_model_checkpoint_paths: "{name}"\n')
        files.atomic_write_text(self.directory / _STATE, "".join(lines))
        for step in {*steps} - {*kept}:
            for ending in (_INDEX, _DATA):
                epath.Path(f"{self._path(step)}{ending}").unlink()
