"""An objective that is not in the package, as a contributor would add one."""

from electra_tf.model import losses
from electra_tf.pretrain.metrics import Loss
from electra_tf.pretrain.objectives.electra import Electra

NAME = "confident_electra"


class ConfidentElectra(Electra):
    """ELECTRA whose verdicts also cost the square of their logits."""

    generator_types = ("transformer",)
    can_freeze = False

    def declare_main_losses(self):
        return super().declare_main_losses() | {
            "size_loss": Loss(0.5, chance=0.0, over="judged")
        }

    @property
    def discriminator_only_paths(self):
        return set()

    def measure(self, prediction):
        judged = self._judged(prediction.inputs, prediction.masked)
        squares = prediction.disc_logits**2
        return super().measure(prediction) | {
            "size_loss": losses.weighted(squares, judged)
        }
