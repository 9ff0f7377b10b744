"""The outputs of pre-trained networks, of a run or of any checkpoint.

Letters in shapes: B rows, L tokens in a row, M masks, H hidden, V vocabulary.
"""

import dataclasses
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from electra_tf.model.modeling import BertModel
from electra_tf.model.networks import (
    ElectraDiscriminator,
    ElectraGenerator,
    EncoderWithHead,
)
from electra_tf.model.text_reader import Ids, TextReader
from electra_tf.serving import saved_models
from electra_tf.serving.saved_models import Network, Outputs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Detector:
    """A discriminator.

    Shapes: logits [B, L].
    """

    encoder: BertModel
    layers: Sequence[keras.layers.Layer]
    reader: TextReader
    logits: Callable[[Ids], tf.Tensor]
    temperature: float = 1.0

    def probability_replaced(self, ids: Ids) -> tf.Tensor:
        """Returns P(replaced) of each token, float32 [B, L], 0 on padding."""
        found = tf.sigmoid(self.logits(ids) / self.temperature)
        return tf.where(ids["input_mask"] > 0, found, 0.0)

    def log_probs(self, ids: Ids) -> tf.Tensor:
        """Returns log P(original) of each token, float32 [B, L], nats."""
        return tf.math.log_sigmoid(-self.logits(ids) / self.temperature)

    @property
    def network(self) -> Network:
        """The network, to export it alone."""
        return Network(
            encoder=self.encoder,
            layers=self.layers,
            reader=self.reader,
            predict=lambda ids: {
                "probability_replaced": self.probability_replaced(ids)
            },
            log_probs=self.log_probs,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskFiller:
    """A generator. For text, it scores the vocabulary at masks only."""

    encoder: BertModel
    layers: Sequence[keras.layers.Layer]
    reader: TextReader
    score: Callable[[tf.Tensor], tf.Tensor]

    @property
    def network(self) -> Network:
        """The network, to export it alone."""
        return Network(
            encoder=self.encoder,
            layers=self.layers,
            reader=self.reader,
            predict=self._logits,
            predict_for_text=self._fill,
        )

    def _logits(self, ids: Ids) -> Outputs:
        states = self.encoder(**ids).sequence_output
        return {"logits": self.score(states)}

    def _fill(self, ids: Ids) -> Outputs:
        vocabulary = self.reader.vocabulary
        is_mask = ids["input_ids"] == vocabulary.mask_id
        states = self.encoder(**ids).sequence_output
        states = tf.boolean_mask(states, is_mask)  # [M, H]
        return saved_models.top_tokens(
            self.score(states), is_mask, vocabulary.tokens
        )


def describe(
    network: EncoderWithHead, temperature: float = 1.0
) -> Detector | MaskFiller | Network:
    """Describes a single network, to export it."""
    encoder = network.encoder
    common = {
        "encoder": encoder,
        "layers": [x for x in (encoder, network.head) if x is not None],
        "reader": network.reader,
    }
    if isinstance(network, ElectraGenerator):
        return MaskFiller(score=network.score, **common)
    if isinstance(network, ElectraDiscriminator):
        return Detector(
            logits=lambda ids: network.head(encoder(**ids).sequence_output),
            temperature=temperature,
            **common,
        )
    return Network(
        predict=lambda ids: saved_models.states(encoder, ids), **common
    )
