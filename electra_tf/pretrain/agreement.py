"""Settings and state on which all workers of a run must agree, as strings.

Devices and the paths of data are left out: workers may read copies.
"""

import hashlib
from collections.abc import Mapping

from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data.preparation import Prepared
from electra_tf.data.reading import Records
from electra_tf.training import agreement
from electra_tf.util import storage

_NUM_BYTES = 2**14
_PATH_FIELDS = {
    "corpus",
    "eval_tfrecords",
    "pretrain_tfrecords",
    "tfds_data_dir",
    "vocab_file",
}
_SHARED = agreement.SHARED | {
    "checkpoint_milestones",
    "num_eval_steps",
}


def settings(config: PretrainingConfig) -> dict[str, str]:
    """Returns field -> value of the settings that affect computation."""
    values = agreement.settings(config, _SHARED)
    return {k: v for k, v in values.items() if k not in _PATH_FIELDS}


def state(data: Prepared, store: Checkpoints) -> dict[str, str]:
    """Returns name -> digest of data and weights at the start of a run."""
    vocabulary = data.vocabulary
    values = {"vocabulary": f"{vocabulary.sha256} {vocabulary.counts}"}
    values |= record_digests(data.train)
    held_out = data.held_out
    values["held-out records"] = _digest(held_out) if held_out else "none"
    return values | agreement.weights(store)


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
