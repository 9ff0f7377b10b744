"""Fingerprints of the inputs that a run or a trial began with.

They lie in `inputs.json` in its directory, so that it never goes on with
another vocabulary, another encoder or other data.
"""

from collections.abc import Mapping

from electra_tf.util import files, storage
from electra_tf.util.errors import UserError

FILE_NAME = "inputs.json"

Digests = Mapping[str, str]
"""Name of an input -> its SHA-256."""


def check(
    directory: storage.Path, digests: Digests, *, way_out: str, write: bool
) -> None:
    """Compares digests with those of the start, and adds new ones.

    Args:
      directory: of the run or trial.
      digests: of all that this start reads; one without training or without
        evaluation reads less.
      way_out: what may be done beside removing the directory.
      write: whether to add.

    Raises:
      UserError: naming what has changed.
    """
    path = directory / FILE_NAME
    there = files.read_object(path) if storage.exists(path) else {}
    changed = [
        name
        for name in there.keys() & digests.keys()
        if there[name] != digests[name]
    ]
    if changed:
        raise UserError(
            f"{directory} must go on with what it began with. Received: "
            f"another content of {', '.join(sorted(changed))}. Restore it, "
            f"remove the directory to start again, or {way_out}."
        )
    if write and digests.keys() - there.keys():
        files.write_json(path, {**there, **digests})
