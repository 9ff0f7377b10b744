"""Electric: an energy for every token, learned by telling text from noise.

    loss = gen_weight * mean over all tokens but [CLS], [SEP], [MASK]
                        of -log q(x_t | others)
         + disc_weight * mean over real tokens of BCE(z_t, chosen_t)
    z_t = E(noised x)_t + log q(noised x_t | others) + log(p / (1 - p))

q is the two-tower generator, which reads the clean text and is trained by
maximum likelihood on all of it. A share p (`mask_prob`) of the tokens is
replaced by its samples, and all of them count as noise, also where the sample
equals the data: exp(-E(x)_t) then learns to be p(x_t | others), without a
softmax and without a mask. No gradient passes through q or the samples.

Memory: the cloze loss needs a softmax over the vocabulary at every token, the
logits of which would be B L V numbers. They are computed in blocks of 128 MB,
and again for the gradient, as `model/vocabulary_softmax` says.

Differs: the paper has k / (n - k), of the numbers of a row, in place of
p / (1 - p), which is the original's and ours. The original builds log q with
one-hot vectors, and samples at a temperature or without the correct token while
log q knows of neither; here such a configuration is refused.

Source: Clark et al., 2020, "Pre-Training Transformers as Energy-Based Cloze
Models", algorithm 2; the original with `electric_objective`.
"""

import math

import tensorflow as tf

from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.objectives.electra import Electra, Prediction
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Keys


class Electric(Electra):
    """Trains two towers and the energies jointly.

    `discriminate` returns the energies E.

    Args:
      config: the whole configuration.
      vocabulary: of the data.
    """

    def forward(
        self, inputs: Inputs, *, keys: Keys, training: bool
    ) -> Prediction:
        """Samples noise and tells it from the data.

        Args:
          inputs: a batch.
          keys: one random key a row, or draws.
          training: whether dropout is on.

        Returns:
          The forward pass; its `disc_logits` are z.
        """
        prediction = super().forward(inputs, keys=keys, training=training)
        fake = prediction.fake
        is_noise = tf.cast(pretrain_helpers.chosen(prediction.masked), tf.int32)
        log_q = prediction.cloze.log_probs(fake.inputs.input_ids)
        share = self.config.masking.mask_prob
        return prediction._replace(
            fake=fake._replace(is_fake_tokens=is_noise),
            disc_logits=prediction.disc_logits
            + tf.stop_gradient(log_q)
            + math.log(share / (1.0 - share)),
        )

    def _has_cloze(self, inputs: Inputs) -> tf.Tensor:
        """As in the original, [CLS] and [SEP] have a log q too."""
        return inputs.input_mask > 0
