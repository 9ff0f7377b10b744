"""The objectives by name. To add one: one file beside this, one line here."""

from electra_tf.pretrain.objectives.adversarial import Adversarial
from electra_tf.pretrain.objectives.all_tokens_mlm import AllTokensMlm
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.objectives.electra_15 import Electra15
from electra_tf.pretrain.objectives.electric import Electric
from electra_tf.pretrain.objectives.mlm import MaskedLanguageModel
from electra_tf.pretrain.objectives.replace_mlm import ReplaceMlm
from electra_tf.pretrain.objectives.two_stage import TwoStage

OBJECTIVES = {
    "adversarial": Adversarial,
    "all_tokens_mlm": AllTokensMlm,
    "electra": Electra,
    "electra_15": Electra15,
    "electric": Electric,
    "mlm": MaskedLanguageModel,
    "replace_mlm": ReplaceMlm,
    "two_stage": TwoStage,
}
