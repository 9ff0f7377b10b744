"""Settings and inputs on which all workers of a fine-tuning must agree."""

import hashlib

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.run.experiment import Experiment
from electra_tf.training import agreement

_SHARED = agreement.SHARED | {"model_name", "num_trials"}


def settings(config: FinetuningConfig) -> dict[str, str]:
    """Returns field -> value of the settings that affect computation."""
    return agreement.settings(config, _SHARED)


def inputs(experiment: Experiment) -> dict[str, str]:
    """Returns name -> digest of the encoder and of the examples."""
    digests = dict(experiment.digests)
    encoder = digests.pop("encoder")
    examples = hashlib.sha256(repr(sorted(digests.items())).encode())
    return {"encoder": encoder, "examples": examples.hexdigest()}
