"""Checkpoints of a run: written atomically, verified, and found by scanning.

A checkpoint is a TensorFlow tensor bundle of named variables, without an object
graph: `model.ckpt-{step}.index` and `model.ckpt-{step}.data-00000-of-00001`.
The names are those of the original's TF1 variables, so that its code can read
our checkpoints.

A reader of the directory can rely on these rules:
  1. An index exists only if the checkpoint was completely written, read back
     and flushed to disk. A store may show a part of the index for a moment.
  2. The newest checkpoint is found by looking at all of them; the file
     `checkpoint` is written for other programs and never trusted.
  3. A checkpoint is removed only after a newer one is complete.
  4. Its weights are finite.
"""

import contextlib
import logging
import os
import pathlib
import re
import tempfile
from collections.abc import Collection, Mapping

import tensorflow as tf

from electra_tf.checkpoint import bundles
from electra_tf.util import files, storage
from electra_tf.util.errors import (
    NonFiniteLossError,
    UserError,
    listed,
    reason,
    shape_differences,
)
from electra_tf.util.store_requests import StoreError

_FILE = re.compile(rf"model\.ckpt-(\d+)({bundles.INDEX}|{bundles.DATA})")
_STATE = "checkpoint"
_NAME = re.compile(r'"(model\.ckpt-\d+)"')
_UNFINISHED = "tmp-model.ckpt-"

_logger = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(
        self,
        directory: storage.StrPath,
        variables: Mapping[str, tf.Variable],
        *,
        keep_max: int = 5,
        milestones: Collection[int] = frozenset(),
    ) -> None:
        self.directory = storage.as_path(directory)
        self._is_remote = storage.is_remote(directory)
        self.variables = dict(variables)
        self.keep_max = keep_max
        self.milestones = frozenset(milestones)

    def steps(self) -> list[int]:
        """Returns the steps that have an index, ascending."""
        return self._steps_with(bundles.INDEX)

    def save(self, step: int) -> storage.Path:
        """Writes the checkpoint of a step, then removes old ones."""
        self.check(step)
        try:
            storage.make_directories(self.directory)
            self._sweep()
            self._write(step)
            self._remove_old(step)
        except StoreError:
            raise
        except (OSError, tf.errors.OpError) as error:
            num_bytes = sum(
                variable.shape.num_elements() * variable.dtype.size
                for variable in self.variables.values()
            )
            raise UserError(
                f"The checkpoint of step {step} needs {num_bytes:,} bytes in "
                f"{self.directory}. Received: {reason(error)}. Older "
                "checkpoints are intact: free disk space, or make the "
                "directory writable, and run again."
            ) from error
        return self._path(step)

    def check(self, step: int) -> None:
        """Checks that the variables are finite before a step is saved."""
        self.check_finite(
            f"The checkpoint of step {step}",
            "It was not saved; those that were hold finite weights. Start from "
            "one of them (--init_checkpoint) with a lower --learning_rate "
            "under another --model_name, or look at the data.",
        )

    def check_finite(self, what: str, way_out: str) -> None:
        """Checks that all variables are finite."""
        bad = [
            name
            for name, variable in self.variables.items()
            if variable.dtype.is_floating
            and not tf.reduce_all(tf.math.is_finite(variable.read_value()))
        ]
        if bad:
            raise NonFiniteLossError(
                f"{what} must hold finite weights. Received: infinite or "
                f"NaN values in {listed(bad)}. {way_out}"
            )

    def latest_valid(self) -> storage.Path | None:
        """Returns the newest readable checkpoint; None if there is none."""
        found = {*self.steps(), *self._steps_with(bundles.DATA)}
        for step in sorted(found, reverse=True):
            path = self._path(step)
            damage = bundles.find_damage(path)
            if damage is None:
                return path
            _logger.warning(
                "The checkpoint %s is skipped, as it cannot be read: %s",
                path,
                damage,
            )
        if self.steps() or storage.exists(self.directory / _STATE):
            raise UserError(
                f"{self.directory} must hold a checkpoint that can be read. "
                f"Received: {len(found)}, all damaged or incomplete. Restore "
                "one from a copy, or start anew under another --model_name."
            )
        return None

    def restore_latest(self) -> int | None:
        """Restores the newest checkpoint that can be read."""
        path = self.latest_valid()
        if path is None:
            return None
        self.restore(path)
        return int(path.name.rpartition("-")[2])

    def restore(self, path: storage.StrPath) -> None:
        """Assigns every variable from a checkpoint."""
        try:
            with bundles.opened(path) as reader:
                self._check_shapes(path, reader.get_variable_to_shape_map())
                for name, variable in self.variables.items():
                    variable.assign(reader.get_tensor(name))
        except UserError:
            raise
        except bundles.READ_ERRORS as error:
            raise UserError(
                f"{os.fspath(path)} must be a checkpoint. Received: "
                f"{reason(error)}"
            ) from error
        self.check_finite(
            os.fspath(path),
            f"Its directory has those of steps {self.steps()}: start from an "
            "older one (--init_checkpoint) with a lower --learning_rate under "
            "another --model_name.",
        )

    def _path(self, step: int) -> storage.Path:
        return self.directory / f"model.ckpt-{step}"

    def _steps_with(self, ending: str) -> list[int]:
        """Returns the steps that have a file with this ending, ascending."""
        found = storage.find(self.directory, [f"model.ckpt-*{ending}"])
        names = {os.path.basename(path) for path in found}
        names |= self._unlisted(ending) if self._is_remote else set()
        matches = map(_FILE.fullmatch, names)
        return sorted(int(m[1]) for m in matches if m and m[2] == ending)

    def _unlisted(self, ending: str) -> set[str]:
        """Returns existing files that a store may not list yet."""
        path = self.directory / _STATE
        states = filter(storage.exists, (path, files.unfinished_path(path)))
        text = "".join(str(storage.read_bytes(state)) for state in states)
        names = {name + ending for name in _NAME.findall(text)}
        return {x for x in names if storage.exists(self.directory / x)}

    def _sweep(self) -> None:
        """Removes remains of killed runs: unfinished files, data alone."""
        patterns = [f"{_UNFINISHED}*", f"tmp-{_STATE}-*"]
        for path in storage.find(self.directory, patterns):
            storage.remove(path)
        data_only = {*self._steps_with(bundles.DATA)} - {*self.steps()}
        for step in data_only:
            if not storage.exists(f"{self._path(step)}{bundles.INDEX}"):
                self._remove(step)

    def _write(self, step: int) -> None:
        """Writes, verifies and publishes the checkpoint of a step."""
        path = self._path(step)
        with tempfile.TemporaryDirectory(
            prefix=f"{_UNFINISHED}{step}-",
            dir=None if self._is_remote else self.directory,
        ) as unfinished:
            copy = pathlib.Path(unfinished, path.name)
            bundles.write(
                copy,
                {name: v.read_value() for name, v in self.variables.items()},
            )
            if damage := bundles.find_damage(copy, self.variables.keys()):
                raise OSError(f"it could not be read back: {damage}")
            bundles.publish(str(copy), str(path))
        files.sync(self.directory)

    def _remove_old(self, newest: int) -> None:
        """Lists the kept checkpoints in the state file, then removes the
        rest."""
        found = {*self.steps(), newest}  # a store may not list it yet
        steps = sorted(step for step in found if step <= newest)
        recent = steps[-self.keep_max :]  # all of them for 0
        kept = [s for s in steps if s in recent or s in self.milestones]
        state = [f'model_checkpoint_path: "{self._path(newest).name}"\n']
        for step in kept:
            name = self._path(step).name
            state.append(f'all_model_checkpoint_paths: "{name}"\n')
        files.atomic_write_text(self.directory / _STATE, "".join(state))
        for step in steps:
            if step not in kept:
                self._remove(step)

    def _remove(self, step: int) -> None:
        for ending in (bundles.INDEX, bundles.DATA):
            with contextlib.suppress(FileNotFoundError):
                storage.remove(f"{self._path(step)}{ending}")

    def _check_shapes(
        self, path: storage.StrPath, stored: Mapping[str, list[int]]
    ) -> None:
        """Compares names and shapes with those of the variables."""
        own = {name: v.shape.as_list() for name, v in self.variables.items()}
        if text := shape_differences(own, stored):
            raise UserError(
                f"{os.fspath(path)} must hold the variables of this model. "
                f"Received:{text}"
                "\nGive the configuration that it was trained with."
            )
