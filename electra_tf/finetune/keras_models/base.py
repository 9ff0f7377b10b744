"""The encoder alone as a Keras model, and the base of all others."""

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.weights import ENCODER, Weights, assign, select
from electra_tf.config.model import BertConfig
from electra_tf.configure_finetuning import OptimizerConfig, TrainingConfig
from electra_tf.finetune.preprocessing import Batch, Features, TextTokenizer
from electra_tf.model import optimization
from electra_tf.model.networks import EncoderWithHead
from electra_tf.model.schedules import Schedule, WarmupPolynomialDecay
from electra_tf.model.text_reader import Ids
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

Strings = tf.Tensor | tuple[tf.Tensor, tf.Tensor]
"""string [B], or two for pairs."""
Texts = Sequence[str] | Sequence[tuple[str, str]] | tuple[Sequence[str], ...]
"""Texts; or pairs, as a sequence of tuples, or as a tuple of two sequences."""


def columns_of(texts: Texts) -> list[list[str]]:
    """Returns texts as one column, pairs as two."""
    if isinstance(texts, str | Mapping):  # read by letter, or by key
        raise UserError(f"Texts are a sequence of strings, not {texts!r:.60}.")
    if isinstance(texts, tf.Tensor):
        texts = [text.decode() for text in texts.numpy().tolist()]
    if isinstance(next(iter(texts), ""), str):
        return [list(texts)]
    if isinstance(texts, tuple):
        if len(texts) != 2 or all(
            len(part) == 2 and isinstance(part, tuple) for part in texts
        ):
            raise UserError("A tuple has two columns: give pairs as a list.")
        return [list(column) for column in texts]
    return [list(column) for column in zip(*texts, strict=True)]


@keras.saving.register_keras_serializable("electra_tf")
@dataclasses.dataclass(eq=False)
class FittedDecay(Schedule):
    """A `WarmupPolynomialDecay` that is as long as the first `fit`."""

    learning_rate: float
    warmup_proportion: float
    num_train_steps: int | None = None

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        length = self.num_train_steps
        warmup = length * self.warmup_proportion
        return WarmupPolynomialDecay(self.learning_rate, length, warmup)(step)


class ElectraModel(EncoderWithHead):
    """An encoder with the tokenizer of its vocabulary.

    Args:
      config: sizes of the encoder; see `BertConfig`.
      vocabulary: tokens of the encoder.
      seed: seed of dropout and of the order of rows; None for a random one.
      **options: options of `EncoderWithHead`: `do_lower_case` and
        `strip_accents` of the tokenizer; `max_seq_length`, maximum tokens in a
        row, by default `DEFAULT_LENGTH`; `dtype`, such as "mixed_bfloat16".

    Attributes:
      encoder: a `BertModel`; `encoder.blocks` are its layers.
      head: the output layers; None for a backbone.
      tokenizer: a `TextTokenizer`.
    """

    def __init__(
        self,
        config: BertConfig,
        vocabulary: Vocabulary,
        *,
        seed: int | None = 0,
        **options: Any,
    ) -> None:
        seed = random.randrange(2**31) if seed is None else seed
        super().__init__(config, vocabulary, seed=seed, **options)
        self.max_seq_length = self.reader.max_seq_length
        self.tokenizer = TextTokenizer(
            vocabulary, self.reader.do_lower_case, self.reader.strip_accents
        )

    @classmethod
    def from_checkpoint(
        cls, path: str, *arguments: Any, vocab_file: str = "", **options: Any
    ) -> Self:
        """Makes a model with a pre-trained encoder and a new head.

        An encoder that was pre-trained without dropout gets a rate of 0.1.

        Args:
          path: checkpoint of the original, of electra_tf or of Hugging Face;
            a fine-tuned head is dropped.
          *arguments, **options: those of the class after the vocabulary.
          vocab_file: vocabulary file. Default: the one beside the checkpoint.

        Raises:
          UserError: if the checkpoint cannot be read or has no vocabulary.
        """
        weights = select(loading.read(path, vocab_file=vocab_file), ENCODER)
        sizes = weights.architecture
        sizes = sizes.with_fields(**TrainingConfig().dropouts(sizes.encoder))
        weights = dataclasses.replace(weights, architecture=sizes)
        return cls._from_weights(weights, *arguments, **options)

    @classmethod
    def _from_weights(
        cls, weights: Weights, *arguments: Any, **options: Any
    ) -> Self:
        if weights.vocabulary is None:
            raise UserError(f"{weights.origin} has no vocab_file.")
        loading.warn_of_assumed_heads(weights)
        model = cls(
            weights.architecture.encoder,
            weights.vocabulary,
            *arguments,
            **loading.tokenizer_options(weights) | options,
        )
        assign(model.encoder, weights.arrays)
        return model

    def preprocess(
        self, texts: tf.Tensor, others: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Tokenizes texts or pairs, string [B] each; also inside `tf.data`.

        Returns:
          "input_ids", "input_mask" and "segment_ids", int32 [B, L].
        """
        return self.reader.read(texts, others, is_padded=True)

    def freeze(self, num_layers: int | None = None) -> None:
        """Freezes the embeddings and the lowest blocks, by default all.

        Compile afterwards.
        """
        self.unfreeze()
        encoder = self.encoder
        below = (encoder.embeddings, encoder.embeddings_project)
        for layer in filter(None, (*below, *encoder.blocks[:num_layers])):
            layer.trainable = False

    def unfreeze(self) -> None:
        """Trains the whole encoder again; compile afterwards."""
        # Keras ignores an unchanged value, even if sub-layers differ.
        self.encoder.trainable = False
        self.encoder.trainable = True

    def make_optimizer(
        self,
        learning_rate: float | None = None,
        *,
        num_train_steps: int | None = None,
        warmup_proportion: float = 0.1,
        layerwise_lr_decay: float | None = None,
        weight_decay_rate: float = 0.0,
    ) -> optimization.AdamWeightDecayOptimizer:
        """Makes the original's optimizer, with a learning rate per layer.

        Differs from `run_finetuning`: Keras does not clip the gradient.

        Args:
          learning_rate: peak rate of all variables outside of the encoder.
            Default: the paper's, by the width of the encoder.
          num_train_steps: number of updates until the rate is 0. Default: the
            length of the first `fit`; required for a model of yours.
          warmup_proportion: share of the updates in which the rate rises.
          layerwise_lr_decay: rate of a layer as a share of the layer above.
            Default: the paper's.
          weight_decay_rate: weight decay, in units of the learning rate.
        """
        rates = OptimizerConfig(
            learning_rate=learning_rate, layerwise_lr_decay=layerwise_lr_decay
        ).rates(self.config.hidden_size)
        return optimization.AdamWeightDecayOptimizer(
            FittedDecay(
                rates.learning_rate, warmup_proportion, num_train_steps
            ),
            weight_decay_rate,
            rates=optimization.layerwise_rates(
                [variable.path for variable in self.encoder.variables],
                rates.layerwise_lr_decay,
                self.config.num_hidden_layers,
            ),
        )


@keras.saving.register_keras_serializable("electra_tf")
class ElectraBackbone(ElectraModel):
    """Encodes strings, or token ids, as vectors.

    Example:
      backbone = electra_tf.ElectraBackbone.from_checkpoint(path)
      texts = keras.Input((), dtype="string")
      vectors = backbone(texts)["pooled_output"]
      model = keras.Model(texts, keras.layers.Dense(2)(vectors))

    Args: see `ElectraModel`.

    Call arguments: as `EncoderWithHead`, also a tuple of two string tensors.

    Returns:
      As `EncoderWithHead`. Padding has states, too: pool with the mask.
    """

    def read(self, texts: Strings) -> Ids:
        pair = texts if isinstance(texts, tuple | list) else (texts,)
        return self.preprocess(*(tf.reshape(x, [-1]) for x in pair))

    def embed(
        self,
        texts: Texts,
        *,
        pooling: str = "mean",
        layer: int = -1,
        batch_size: int = 32,
    ) -> np.ndarray:
        """Computes a vector for each text.

        Args:
          texts: texts or pairs, as for `ElectraClassifier`.
          pooling: "mean" over the tokens, or "cls" for the first token.
          layer: block whose states are pooled, from 0; -1 for the last.
          batch_size: rows in a batch; the vectors do not depend on it.

        Returns:
          float32 [n, H].
        """
        if pooling not in ("mean", "cls"):
            raise ValueError(f"{pooling=} is neither mean nor cls.")
        columns = columns_of(texts)
        rows = self.tokenizer.rows(*columns, length=self.max_seq_length)
        vectors = np.zeros(
            (len(columns[0]), self.config.hidden_size), np.float32
        )
        for indices, batch in Features(rows).batches(batch_size):
            vectors[indices] = self._pooled(batch, pooling, layer).numpy()
        return vectors

    @tf.function(reduce_retracing=True, autograph=False)
    def _pooled(self, batch: Batch, pooling: str, layer: int) -> tf.Tensor:
        x = self.encode(batch).all_layers[layer]  # [B, L, H]
        if pooling == "cls":
            return x[:, 0]
        mask = tf.cast(batch["input_mask"], tf.float32)[..., tf.newaxis]
        return tf.reduce_sum(x * mask, 1) / tf.reduce_sum(mask, 1)
