"""MC-BERT: at each token, which candidate was the original, or <neither>?

    loss = gen_weight * mean over masked slots of -log p_G(x_t | masked x)
         + selection_weight * mean over real tokens of -log p(answer_t | z)

    p(v | z)_t = exp(<g(h(z)_t), e(v)>) / sum of the same over C_t
    C_t = <neither> and num_candidates - 1 words, drawn from p_G(. | z)_t
          without replacement and without z_t; where z_t is not x_t, x_t in
          place of the last, unless it is among them

z is the text with the generator's samples in the masked positions and g the
layer of `heads.SelectionPredictions`. The answer is <neither> where z_t = x_t
and x_t elsewhere. No gradient passes through z or C.

The candidates must not reveal which tokens were replaced. So the generator
reads the encoder's input z to draw them, not the masked text, and z_t is never
a candidate. They need the generator's softmax at every token, which is computed
in blocks, forward only and without dropout.

`disc_loss` and the other metrics of a discriminator measure

    P(replaced)_t = 1 - p(<neither> | z)_t

computed from the drawn candidates only; x_t is not inserted. Evaluation takes
the likeliest words instead: `disc_auc` describes the exported network, which
does the same. The loss and the accuracy of the choice keep C_t.

Differs: in the published code words are drawn with replacement, by a generator
that reads the masked text, and a word that equals x_t is a wrong answer if x_t
was not replaced and a second right one if it was. The scores have no bias.

Source: Xu et al., 2020, "MC-BERT: Efficient Language Pre-Training via a Meta
Controller"; its code, fairseq/models/mcbert/model.py.
"""

import math

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import heads
from electra_tf.model.tensor_ops import ZERO_PROB_LOGIT
from electra_tf.pretrain import generators
from electra_tf.pretrain.flops import Pass, Sizes
from electra_tf.pretrain.metrics import ForwardPass, Loss, softmax_metrics
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import Detection, Metrics
from electra_tf.pretrain.random_keys import Purpose, RandomKeys, position_keys


class SelectionModel(Electra):
    """Base class of objectives that choose among a few words."""

    generator_types = ("transformer",)

    def declare_selection_loss(self, over: str) -> dict[str, Loss]:
        """Returns the loss of the choice, by name; `over` as in `Loss`."""
        config = self.config.objective
        chance = math.log(config.num_candidates)
        return {"selection_loss": Loss(config.selection_weight, chance, over)}

    def build_selection_head(
        self, bert: BertConfig, *, has_neither: bool
    ) -> None:
        self.selection_predictions = heads.SelectionPredictions(
            bert, has_neither=has_neither, dtype=self.policy
        )
        self.selection_predictions.build((None, None, bert.hidden_size))


class McBert(SelectionModel):
    """Trains a generator, and an encoder that chooses among its words."""

    def declare_main_losses(self) -> dict[str, Loss]:
        return self.declare_selection_loss(over="judged")

    @classmethod
    def passes(cls, sizes: Sizes) -> dict[str, Pass]:
        # <neither>, the sampled words, and the original word.
        num_words = sizes.config.objective.num_candidates + 1
        return cls.generator_passes(sizes) | {
            "candidates": sizes.generator(
                num_predictions=sizes.num_tokens, is_trained=False
            ),
            "encoder": sizes.main(
                num_choices=sizes.num_tokens, num_candidates=num_words
            ),
        }

    def _build_head(self, bert: BertConfig) -> None:
        self.build_selection_head(bert, has_neither=True)

    @property
    def detector(self) -> tuple[keras.layers.Layer, ...]:
        return (
            self.electra,
            self.generator,
            self.generator_predictions,
            self.selection_predictions,
        )

    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        """Masks, samples and chooses.

        Adds words int32 [B, L, K], the candidates drawn, then the original
        word; selection_logits float32 [B, L, 1 + K], of <neither> and the
        words, -1e9 for a word that is not in C_t.
        """
        corrupted = self.corrupt(inputs, keys=keys, training=training)
        text, length = corrupted.fake.inputs, inputs.input_ids.shape[1]
        candidates = self._candidates(
            text, position_keys(keys, Purpose.CANDIDATES, length)
        )
        words = tf.concat([candidates, inputs.input_ids[..., tf.newaxis]], -1)
        inner = self.main_dropout(keys, training)
        logits = self._select(text, words, inner)
        can_be_chosen = _option_mask(words, corrupted.fake.is_fake_tokens)
        return corrupted.extended(
            disc_logits=_verdicts(logits[..., :-1]),  # without the original
            words=words,
            selection_logits=tf.where(can_be_chosen, logits, ZERO_PROB_LOGIT),
        )

    def discriminate(
        self, inputs: Inputs, keys: tf.Tensor | None = None
    ) -> tf.Tensor:
        return _verdicts(self._select(inputs, self._candidates(inputs), keys))

    def evaluation_step(
        self, inputs: Inputs, *, keys: RandomKeys
    ) -> tuple[Metrics, Detection]:
        """Computes verdicts as an exported model, from the likeliest words."""
        result = self.forward(inputs, keys=keys, training=False)
        verdicts = self.discriminate(result.fake.inputs)
        return self.evaluated(result.extended(disc_logits=verdicts))

    def _candidates(
        self, text: Inputs, keys: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Returns words for each token: keys [B, L] -> [B, L, K - 1]."""
        states = self.generator(*text).sequence_output
        return generators.distinct_for_all_tokens(
            self.generator_predictions.project(states),
            tf.convert_to_tensor(self.generator.embeddings.word_embeddings),
            tf.convert_to_tensor(self.generator_predictions.output_bias),
            excluded=text.input_ids,
            num_words=self.config.objective.num_candidates - 1,
            keys=keys,
        )

    def _select(
        self, inputs: Inputs, words: tf.Tensor, keys: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns the scores of <neither> and words, float32 [B, L, 1 + n]."""
        states = self.electra(*inputs, keys=keys).sequence_output
        return self.selection_predictions(states, words, self.word_table)

    def measure(self, forward_pass: ForwardPass) -> Metrics:
        truth = self.config.objective.num_candidates  # the last; <neither> is 0
        return {
            **super().measure(forward_pass),
            **softmax_metrics(
                "selection",
                forward_pass.selection_logits,
                truth * forward_pass.fake.is_fake_tokens,
                self._judged(forward_pass.inputs, forward_pass.masked),
            ),
        }


def _option_mask(words: tf.Tensor, is_fake: tf.Tensor) -> tf.Tensor:
    """Returns which options can be chosen, K at every token, [B, L, 1 + K]."""
    is_answer = is_fake[..., tf.newaxis] > 0  # [B, L, 1]
    is_truth = words[..., :-1] == words[..., -1:]  # [B, L, K - 1]
    # The answer takes its own place among the candidates, or the last one's.
    is_missing = ~tf.reduce_any(is_truth, -1, keepdims=True)
    is_last = tf.range(words.shape[-1] - 1) == words.shape[-1] - 2
    is_kept = ~(is_truth | (is_missing & is_last)) | ~is_answer
    return tf.concat([tf.ones_like(is_answer), is_kept, is_answer], -1)


def _verdicts(logits: tf.Tensor) -> tf.Tensor:
    """Returns the log-odds of "not <neither>": [B, L, K] -> [B, L]."""
    return tf.reduce_logsumexp(logits[..., 1:], -1) - logits[..., 0]
