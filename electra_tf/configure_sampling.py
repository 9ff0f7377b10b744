"""The configuration of several tasks learned together; needs no TensorFlow."""

import dataclasses

from electra_tf.util.config_fields import require


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How several tasks share a training."""

    task_sampling_alpha: float = 1.0
    """Each of several tasks gets a share of the updates in proportion to
    (rows times epochs)^alpha: 1 for its share of the rows, 0.5 for that of
    their square roots, 0 for the same of all."""

    task_sampling_alpha_end: float | None = None
    """Alpha at the end of training, which it reaches in a straight line.
    Default: as at the beginning."""

    def __post_init__(self) -> None:
        alphas = "task_sampling_alpha task_sampling_alpha_end"
        require(self, alphas, "in [0, 1]", lambda x: 0 <= x <= 1)
