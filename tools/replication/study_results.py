"""Results of studies: one line of JSON for each finished run.

Source of the gate: none. The loss of a discriminator that knows only the share
of replaced tokens is the entropy of that share.
"""

import json
import math
import pathlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from studies import Run, Study

from electra_tf.util import console, files
from electra_tf.util.errors import UserError

Record = dict[str, Any]
"""A line of the results."""

_FIELDS = {"run", "fingerprint", "vocabulary", "gate", "held_out", "probes"}
"""Fields of every line."""


class Results:
    """The lines of a study's results."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._lock = threading.Lock()  # runs end in several threads
        self.records: list[Record] = read_lines(path) if path.exists() else []
        for number, record in enumerate(self.records, 1):
            if missing := _FIELDS - record.keys():
                raise UserError(
                    f"{path}, line {number} must be the result of a run. "
                    f"Received: a line without {', '.join(sorted(missing))}. "
                    "Set another --results, or remove the line; if a run made "
                    "it, the run is made again."
                )

    def find(self, run: Run) -> Record | None:
        """Returns the line of a run; None if there is none that counts."""
        named = [x for x in self.records if x["run"] == run.name]
        for record in reversed(named):
            if record["fingerprint"] == run.fingerprint:
                return record
        if named:
            console.warn(
                f"{self._path}: ignored a line of {run.name}, from version "
                f"{named[-1]['versions']['electra_tf']} or with other settings."
            )
        return None

    def add(self, record: Record) -> None:
        """Writes the line of a run, replacing one with the same settings."""
        with self._lock:
            keys = [*map(_key, self.records), _key(record)]
            number = keys.index(_key(record))
            self.records[number : number + 1] = [record]
            text = "".join(json.dumps(x) + "\n" for x in self.records)
            files.atomic_write_text(self._path, text)

    def from_other_studies(self, run: Run) -> Iterator[Record]:
        """Yields lines with the same settings, of all the directory's files."""
        for path in sorted(self._path.parent.glob("*.jsonl")):
            for record in read_lines(path):
                if record.get("fingerprint") == run.fingerprint:
                    yield record

    def learning_rate(self, study: Study, arm: str) -> float | None:
        """Returns the learning rate of the best trial."""
        trials = study.trials(arm)
        if not trials:
            return study.learning_rates[0]
        found = [self.find(run) for run in trials]
        if not all(found):
            return None
        best = min(found, key=_selection_loss)
        return best["learning_rate"]


def _key(record: Record) -> tuple[str, str]:
    return record["run"], record["fingerprint"]


def _selection_loss(record: Record) -> float:
    gate = record["gate"]
    return record["held_out"]["loss"] if gate is None else gate


def read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads lines of JSON objects."""
    lines = path.read_text("utf-8").splitlines()
    return [
        _parse(line, f"{path}, line {number}")
        for number, line in enumerate(lines, 1)
    ]


def _parse(line: str, place: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError(found)
    except ValueError as error:
        raise UserError(
            f"{place} must be a JSON object. Received: {error}. Remove the "
            "line; its run is made again."
        ) from error
    return found


def share_of_entropy(held_out: Mapping[str, float]) -> float | None:
    """Returns the gate: the discriminator's loss relative to a constant
    guess."""
    if "disc_loss" not in held_out:
        return None
    p = held_out["replaced_share"]
    if not 0 < p < 1:
        return 1.0
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    return held_out["disc_loss"] / entropy


def training_seconds(
    log: Sequence[Mapping[str, float]], batch_size: int
) -> float:
    """Returns the seconds of all updates at the speed of an undisturbed one."""
    speed = np.quantile([line["sequences_per_second"] for line in log], 0.9)
    return float(log[-1]["step"] * batch_size / speed)
