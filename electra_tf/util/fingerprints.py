"""Fingerprints of the inputs that a run or a trial began with.

They are stored in `inputs.json` in its directory, so that it is never resumed
with another vocabulary, another encoder or other data.
"""

from collections.abc import Mapping

from electra_tf.util import files, storage
from electra_tf.util.errors import UserError

FILE_NAME = "inputs.json"

Digests = Mapping[str, str]
"""Name of an input -> its SHA-256."""


def stored(directory: storage.Path) -> Digests:
    """Returns the stored digests of a run or trial; none if not known."""
    path = directory / FILE_NAME
    return files.read_object(path) if storage.exists(path) else {}


def check(
    directory: storage.Path, digests: Digests, *, way_out: str, write: bool
) -> None:
    """Compares digests with the stored ones, and stores new ones."""
    known = stored(directory)
    changed = [
        name
        for name in known.keys() & digests.keys()
        if known[name] != digests[name]
    ]
    if changed:
        raise UserError(
            f"{directory} must be resumed with the same inputs. Received: "
            f"changed inputs: {', '.join(sorted(changed))}. Restore them, "
            f"remove the directory to start again, or {way_out}."
        )
    if write and digests.keys() - known.keys():
        files.write_json(directory / FILE_NAME, {**known, **digests})
