"""MC-BERT: at each token, which of these words stood here, or <neither>?

    loss = gen_weight * mean over masked slots of -log p_G(x_t | masked x)
         + selection_weight * mean over real tokens of -log p(answer_t | z)

    p(v | z)_t = exp(<g(h(z)_t), e(v)>) / sum of the same over C_t
    C_t = <neither>, x_t if z_t is not x_t, samples of p_G(. | masked x)_t

z is the text with the generator's samples in the masked positions and g the
layer of `heads.SelectionPredictions`. The answer is <neither> where z_t = x_t
and x_t elsewhere. C_t has `num_candidates` words, <neither> included. To say
which word stood there needs more of the meaning than to say that another did,
and less than to find it among all. No gradient passes through z or C.

The samples at every token need the generator's softmax at every token, which is
computed in blocks, forward only. The words' vectors are kept for the gradient:
with ten words 75 MB for 128 rows of 128 tokens in 128 numbers, 3.6 GB for 256
rows of 512 in 768; --gradient_accumulation_steps divides it.

`disc_loss` and the other metrics of a discriminator are those of

    P(replaced)_t = 1 - p(<neither> | z)_t

and what is exported answers that, with the words that the generator finds
likeliest in the text as it is for C_t.

Differs: a sample that equals x_t is not among the words, where the published
code has it as a wrong answer if x_t was not replaced, and as a second right
one if it was. The scores have no bias. The weight is 50 there, K is 10: give
--selection_weight=50 and --num_candidates=10.

Source: Xu et al., 2020, "MC-BERT: Efficient Language Pre-Training via a Meta
Controller"; its code, fairseq/models/mcbert/model.py.
"""

import math
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import candidates, heads, losses, tensor_ops
from electra_tf.model.bert_config import BertConfig
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.corruption import FakeData
from electra_tf.pretrain.draws import Keys, Purpose, draw, dropout_keys
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.pretraining_model import Terms
from electra_tf.util.errors import UserError

_NEVER = -1e9  # score of what cannot be chosen


class Prediction(NamedTuple):
    """Everything a forward pass computes.

    Attributes:
      masked: what the generator saw.
      mlm_logits: float32 [B, N, V], of the generator.
      fake: what the main encoder saw, and the truth about it.
      disc_logits: float32 [B, L]; over 0 means "replaced".
      words: int32 [B, L, K - 1], the candidates beside <neither>.
      selection_logits: float32 [B, L, K], <neither> first.
    """

    masked: Masked
    mlm_logits: tf.Tensor
    fake: FakeData
    disc_logits: tf.Tensor
    words: tf.Tensor
    selection_logits: tf.Tensor


class McBert(Electra):
    """Trains a generator, and an encoder that chooses among its words.

    Args:
      config: the whole configuration.
      vocabulary: of the data.
    """

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        check_generator(config)

    def _build_head(self, bert: BertConfig) -> None:
        self.loss_weights["selection_loss"] = (
            self.config.selection.selection_weight
        )
        self.selection_predictions = heads.SelectionPredictions(
            bert.embedding_size, bert.initializer_range, has_neither=True
        )
        self.selection_predictions.build((None, None, bert.hidden_size))

    @property
    def detector(self) -> tuple[keras.layers.Layer, ...]:
        return (
            self.electra,
            self.generator,
            self.generator_predictions,
            self.selection_predictions,
        )

    def forward(
        self, inputs: Inputs, *, keys: Keys, training: bool
    ) -> Prediction:
        """Masks, samples and chooses.

        Args:
          inputs: a batch.
          keys: one random key a row, or draws.
          training: whether dropout is on.

        Returns:
          The forward pass.
        """
        masked = pretrain_helpers.mask(
            inputs, self.config.masking, vocabulary=self.vocabulary, keys=keys
        )
        states = self.generator(
            *masked.inputs,
            keys=self._generator_dropout(keys, training),
        ).sequence_output
        mlm_logits = self._score(
            tensor_ops.gather_positions(states, masked.positions)
        )
        fake = self._corrupt(inputs, masked, mlm_logits, keys)
        shape = (inputs.input_ids.shape[1], self._num_words)
        words = candidates.everywhere(
            *self._softmax(states), draw(keys, Purpose.CANDIDATES, shape)
        )
        truth = inputs.input_ids[..., tf.newaxis]
        is_wrong = words != truth  # [B, L, K - 1]
        is_fake = fake.is_fake_tokens[..., tf.newaxis] > 0  # [B, L, 1]
        words = tf.concat(
            [tf.where(is_fake, truth, words[..., :1]), words[..., 1:]], -1
        )
        is_choice = tf.concat(
            [is_fake | is_wrong[..., :1], is_wrong[..., 1:]], -1
        )
        logits = self._select(
            fake.inputs,
            words,
            is_choice,
            dropout_keys(keys, Purpose.DISCRIMINATOR_DROPOUT, training),
        )
        return Prediction(
            masked, mlm_logits, fake, _verdicts(logits), words, logits
        )

    def discriminate(
        self, inputs: Inputs, keys: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Scores each token of some text.

        Args:
          inputs: a batch.
          keys: uint32 [B], one random key a row; None switches dropout off.

        Returns:
          float32 [B, L].
        """
        states = self.generator(*inputs).sequence_output
        words = candidates.likeliest(*self._softmax(states), self._num_words)
        is_other = words != inputs.input_ids[..., tf.newaxis]
        return _verdicts(self._select(inputs, words, is_other, keys))

    @property
    def _num_words(self) -> int:
        """Returns K - 1."""
        return self.config.selection.num_candidates - 1

    def _softmax(self, states: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns what the generator's softmax at all its states is made of.

        Returns:
          float32 [B, L, E], [V, E] and [V]: x, table and bias.
        """
        return (
            self.generator_predictions.project(states),
            tf.convert_to_tensor(self.generator.embeddings.word_embeddings),
            tf.convert_to_tensor(self.generator_predictions.output_bias),
        )

    def _select(
        self,
        inputs: Inputs,
        words: tf.Tensor,
        is_choice: tf.Tensor,
        keys: tf.Tensor | None,
    ) -> tf.Tensor:
        """Returns the scores of <neither> and the words, float32 [B, L, K]."""
        states = self.electra(*inputs, keys=keys).sequence_output
        table = tf.convert_to_tensor(self.electra.embeddings.word_embeddings)
        logits = self.selection_predictions(states, words, table)
        is_choice = tf.pad(
            is_choice, [[0, 0], [0, 0], [1, 0]], constant_values=True
        )
        return tf.where(is_choice, logits, _NEVER)

    def guesses(self) -> dict[str, float]:
        return {
            "selection_loss": math.log(self.config.selection.num_candidates)
        }

    def loss_sizes(self, inputs: Inputs, *, keys: Keys) -> dict[str, tf.Tensor]:
        real = tf.cast(inputs.is_real, tf.float32)
        sizes = super().loss_sizes(inputs, keys=keys)
        return {**sizes, "selection_loss": tf.reduce_sum(real)}

    def _terms(self, inputs: Inputs, prediction: Prediction) -> Terms:
        answers = prediction.fake.is_fake_tokens  # <neither> is 0, x_t 1
        return {
            **super()._terms(inputs, prediction),
            **selection_terms(
                prediction.selection_logits,
                answers,
                self._judged(inputs, prediction.masked),
            ),
        }


def selection_terms(
    logits: tf.Tensor, answers: tf.Tensor, weights: tf.Tensor
) -> Terms:
    """Computes the loss and the accuracy of a choice.

    Args:
      logits: float32 [B, N, K].
      answers: int32 [B, N], the right ones.
      weights: float32 [B, N].

    Returns:
      `selection_loss` (nats) and `selection_accuracy`.
    """
    loss = losses.softmax_cross_entropy(logits, answers)
    best = tf.argmax(logits, -1, output_type=tf.int32)
    return {
        "selection_loss": losses.weighted(loss, weights),
        "selection_accuracy": losses.weighted(best == answers, weights),
    }


def check_generator(config: PretrainingConfig) -> None:
    """Refuses a generator that offers no words to choose from.

    Args:
      config: the whole configuration.

    Raises:
      UserError: if the generator is not a transformer.
    """
    objective = config.objective
    if objective.generator_type != "transformer":
        raise UserError(
            f"objective={objective.objective} needs "
            "--generator_type=transformer: the words to choose from are what "
            "a network takes for likely. Received: generator_type="
            f"{objective.generator_type}."
        )


def _verdicts(logits: tf.Tensor) -> tf.Tensor:
    """Returns the log-odds of "not <neither>": [B, L, K] -> [B, L]."""
    return tf.reduce_logsumexp(logits[..., 1:], -1) - logits[..., 0]
