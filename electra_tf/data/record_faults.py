"""Records that are no longer what they were when a run opened them.

A file that is removed, replaced or rewritten while a run reads it would end it
with an error that names no file, or change the result without any.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping

import tensorflow as tf

from electra_tf.data.records import RecordFile, Records, locate_damage
from electra_tf.util import storage
from electra_tf.util.errors import UserError


def check(files: Iterable[RecordFile]) -> None:
    """Checks that files are as they were when they were opened.

    Args:
      files: to look at; one without a `version` must only be there.

    Raises:
      UserError: naming the first that is gone or has changed.
    """
    for file in files:
        try:
            size, *_ = version = tuple(storage.version(file.path))
        except FileNotFoundError:
            found = "no such file"
        else:
            if file.version in (None, version):
                continue
            found = f"{size} bytes, written meanwhile"
        raise UserError(
            f"{file.path} must stay as it is while a run reads it: "
            f"{file.num_records} records. Received: {found}. Put it back and "
            "give the same command to go on from the last checkpoint."
        )


@contextlib.contextmanager
def named(data_sets: Mapping[int, Records]) -> Iterator[None]:
    """Turns what TensorFlow raises while records are read into their faults.

    Args:
      data_sets: that are read, by their `max_seq_length`.

    Raises:
      UserError: naming a file that is gone, has changed or is damaged.
    """
    files = [f for records in data_sets.values() for f in records.files]
    try:
        check(files)
        yield
    except tf.errors.OpError as error:
        try:
            check(files)
        except UserError as fault:
            raise fault from error
        if isinstance(error, tf.errors.DataLossError):
            raise UserError(locate_damage(f.path for f in files)) from error
        raise
