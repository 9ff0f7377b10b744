"""The objectives by name. To add one: one file beside this, one line here."""

from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.objectives.electric import Electric
from electra_tf.pretrain.objectives.mlm import MaskedLanguageModel

OBJECTIVES = {
    "electra": Electra,
    "electric": Electric,
    "mlm": MaskedLanguageModel,
}
