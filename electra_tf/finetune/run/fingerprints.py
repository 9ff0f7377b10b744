"""Fingerprints of the encoder and the data that a trial learns from."""

import hashlib
from collections.abc import Iterable

import numpy as np

from electra_tf.checkpoint.architecture import STEP
from electra_tf.checkpoint.weights import Weights
from electra_tf.finetune.examples import Example


def of_encoder(weights: Weights) -> str:
    """Returns the digest of an encoder and its tokenizer.

    Args:
      weights: as `pretrained.read` returns them.
    """
    digest = hashlib.sha256()
    for name, array in sorted(weights.arrays.items()):
        if name == STEP:
            continue
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    switches = (weights.do_lower_case, weights.strip_accents)
    digest.update(f"{weights.vocabulary.sha256} {switches}".encode())
    return digest.hexdigest()


def of_examples(examples: Iterable[Example]) -> str:
    """Returns the digest of the examples of a split, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{example!r}\n".encode())
    return digest.hexdigest()
