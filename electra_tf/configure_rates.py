"""Rates of fine-tuning by the size of the encoder; needs no TensorFlow."""

from typing import NamedTuple


class Rates(NamedTuple):
    """Rates for a size of the encoder.

    Attributes:
      learning_rate: peak, of the head.
      layerwise_lr_decay: see `OptimizerConfig`.
    """

    learning_rate: float
    layerwise_lr_decay: float


TABLE_7 = {
    "small": Rates(3e-4, 0.8),
    "base": Rates(1e-4, 0.8),
    "large": Rates(5e-5, 0.9),
}
"""The paper's rates."""

RATES = {"tiny": Rates(1e-3, 0.8), **TABLE_7}
"""Those, and what encoders that are narrower than the paper's Small, 256,
learnt SST-2 and chunking with (docs/finetuning.md)."""

DROPOUT = 0.1
"""Of fine-tuning an encoder that was pre-trained without."""
