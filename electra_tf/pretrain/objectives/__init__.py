"""The objectives by name, as `ObjectiveConfig.objective` lists them."""

from electra_tf.pretrain.objectives.adversarial import Adversarial
from electra_tf.pretrain.objectives.all_tokens_mlm import AllTokensMlm
from electra_tf.pretrain.objectives.coco_lm import CocoLm
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.objectives.electra_15 import Electra15
from electra_tf.pretrain.objectives.electra_sentence import ElectraSentence
from electra_tf.pretrain.objectives.electric import Electric
from electra_tf.pretrain.objectives.fast_electra import FastElectra
from electra_tf.pretrain.objectives.mc_bert import McBert
from electra_tf.pretrain.objectives.mlm import MaskedLanguageModel
from electra_tf.pretrain.objectives.mlm_sentence import MlmSentence
from electra_tf.pretrain.objectives.replace_mlm import ReplaceMlm
from electra_tf.pretrain.objectives.script import Script
from electra_tf.pretrain.objectives.teams import Teams
from electra_tf.pretrain.objectives.two_stage import TwoStage

OBJECTIVES = {
    "adversarial": Adversarial,
    "all_tokens_mlm": AllTokensMlm,
    "coco_lm": CocoLm,
    "electra": Electra,
    "electra_15": Electra15,
    "electra_sentence": ElectraSentence,
    "electric": Electric,
    "fast_electra": FastElectra,
    "mc_bert": McBert,
    "mlm": MaskedLanguageModel,
    "mlm_sentence": MlmSentence,
    "replace_mlm": ReplaceMlm,
    "script": Script,
    "teams": Teams,
    "two_stage": TwoStage,
}
