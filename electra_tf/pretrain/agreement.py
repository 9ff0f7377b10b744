"""Settings and state on which all workers of a run must agree, as strings.

Devices and the paths of data are left out: workers may read copies.
"""

import dataclasses
import hashlib
import zlib
from collections.abc import Mapping

from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data.preparation import Prepared
from electra_tf.data.records import Records
from electra_tf.util import storage
from electra_tf.util.config_fields import flatten

_NUM_BYTES = 2**14
_PATH_FIELDS = {
    "corpus",
    "eval_tfrecords",
    "pretrain_tfrecords",
    "tfds_data_dir",
    "vocab_file",
}
_SHARED = {
    "checkpoint_milestones",
    "do_eval",
    "do_train",
    "eval_batch_size",
    "gradient_accumulation_steps",
    "iterations_per_loop",
    "num_eval_steps",
    "save_checkpoints_steps",
    "skip_corrupt_records",
    "skip_nonfinite_updates",
}
"""Fields of the free parts on which workers must still agree."""


def settings(config: PretrainingConfig) -> dict[str, str]:
    """Returns field -> value of the settings that affect computation."""
    parts = dataclasses.asdict(config)
    free = flatten({name: parts.pop(name) for name in config.FREE_PARTS})
    shared = {name: free[name] for name in sorted(_SHARED)}
    values = flatten(parts) | shared
    return {k: repr(v) for k, v in values.items() if k not in _PATH_FIELDS}


def state(data: Prepared, store: Checkpoints) -> dict[str, str]:
    """Returns name -> digest of data and weights at the start of a run.

    Args:
      data: data of the run.
      store: store of all variables, as restored or initialized.
    """
    vocabulary = data.vocabulary
    values = {"vocabulary": f"{vocabulary.sha256} {vocabulary.counts}"}
    values |= record_digests(data.train)
    held_out = data.held_out
    values["held-out records"] = _digest(held_out) if held_out else "none"
    checksum = 0
    for variable in store.variables.values():
        checksum = zlib.crc32(variable.numpy().tobytes(), checksum)
    return values | {
        "step": str(store.variables["global_step"].numpy()),
        "weights": f"{checksum:08x}",
    }


def record_digests(train: Mapping[int, Records]) -> dict[str, str]:
    """Returns name -> digest of training records, by their `max_seq_length`."""
    return {f"records of {n} tokens": _digest(r) for n, r in train.items()}


def _digest(records: Records) -> str:
    """Returns a digest of the size and the first bytes of each file."""
    digest = hashlib.sha256()
    for file in records.files:
        digest.update(f"{file.num_records} {file.num_bytes}\n".encode())
        with storage.open_binary(file.path) as content:
            digest.update(content.read(_NUM_BYTES))
    return digest.hexdigest()
