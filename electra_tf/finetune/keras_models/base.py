"""The encoder alone as a Keras model, and the base of all others."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.weights import ENCODER, Weights, assign, select
from electra_tf.config.model import BertConfig
from electra_tf.configure_finetuning import OptimizerConfig
from electra_tf.finetune.preprocessing import Batch, Features, TextTokenizer
from electra_tf.finetune.task import Head
from electra_tf.model import optimization
from electra_tf.model.graph_tokenization import pack_rows
from electra_tf.model.layers import dtype_scope
from electra_tf.model.modeling import BertModel, EncoderOutput
from electra_tf.model.networks import IdModel, complete_ids
from electra_tf.model.schedules import Schedule, WarmupPolynomialDecay
from electra_tf.model.text_reader import (
    require_vocabulary_size,
    vocabulary_config,
    vocabulary_from_config,
)
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import seeds
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
class FittedDecay(Schedule):
    """A `WarmupPolynomialDecay` that is as long as the first `fit`."""

    def __init__(
        self,
        learning_rate: float,
        warmup_proportion: float,
        num_train_steps: int | None = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.warmup_proportion = warmup_proportion
        self.num_train_steps = num_train_steps

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        length = self.num_train_steps
        warmup = length * self.warmup_proportion
        return WarmupPolynomialDecay(self.learning_rate, length, warmup)(step)


class ElectraModel(IdModel):
    """An encoder with the tokenizer of its vocabulary.

    Args:
      encoder_config: sizes of the encoder; see `BertConfig`.
      vocabulary: tokens of the encoder.
      do_lower_case: whether the tokenizer lower-cases text.
      strip_accents: whether a lower-casing tokenizer strips accents.
      max_seq_length: L, maximum tokens in a row. Default: `DEFAULT_LENGTH`, or
        the encoder's number of positions if that is less.
      seed: seed of dropout and of the order of rows; None for a random one.
      dtype: policy of all layers, such as "mixed_bfloat16". Default: Keras'
        global policy.
      name: name of the model.

    Attributes:
      encoder: a `BertModel`; `encoder.blocks` are its layers.
      head: the output layers; None for a backbone.
      tokenizer: a `TextTokenizer`.
      COLUMNS: columns that the head reads besides tokens.
    """

    DEFAULT_LENGTH = 128
    COLUMNS: tuple[str, ...] = ()

    def __init__(
        self,
        encoder_config: BertConfig,
        vocabulary: Vocabulary,
        *,
        do_lower_case: bool = True,
        strip_accents: bool = True,
        max_seq_length: int | None = None,
        seed: int | None = 0,
        dtype: str | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        require_vocabulary_size(vocabulary, encoder_config.vocab_size)
        longest = encoder_config.max_position_embeddings
        length = max_seq_length or min(self.DEFAULT_LENGTH, longest)
        self.max_seq_length = length
        self.seed = random.randrange(2**31) if seed is None else seed
        self.vocabulary = vocabulary
        self.tokenizer = TextTokenizer(vocabulary, do_lower_case, strip_accents)
        self.head: Head | None = None
        self._calls = keras.random.SeedGenerator(self.seed)
        with dtype_scope(self.dtype_policy):
            self.encoder = BertModel(encoder_config)
            self.encoder.build((None, None))

    def _add(self, head_class: type[Head], *arguments: Any) -> None:
        """Makes and builds the head."""
        with dtype_scope(self.dtype_policy):
            head = head_class(*arguments)
            self.head = head.build_for(self.encoder.config.hidden_size)
        self.built = True

    @classmethod
    def from_checkpoint(
        cls, path: str, *arguments: Any, vocab_file: str = "", **options: Any
    ) -> Self:
        """Makes a model with a pre-trained encoder and a new head.

        Args:
          path: checkpoint of the original, of electra_tf or of Hugging Face;
            a fine-tuned head is dropped.
          *arguments: arguments of the class after the vocabulary.
          vocab_file: vocabulary file. Default: the one beside the checkpoint.
          **options: options of the class.

        Raises:
          UserError: if the checkpoint cannot be read or has no vocabulary.
        """
        weights = select(loading.read(path, vocab_file=vocab_file), ENCODER)
        return cls._from_weights(weights, *arguments, **options)

    @classmethod
    def _from_weights(
        cls, weights: Weights, *arguments: Any, **options: Any
    ) -> Self:
        config = weights.architecture.encoder
        if weights.vocabulary is None:
            raise UserError(f"{weights.origin} has no vocab_file.")
        loading.warn_of_assumed_heads(weights)
        options = loading.tokenizer_options(weights) | options
        model = cls(config, weights.vocabulary, *arguments, **options)
        assign(model.encoder, weights.arrays)
        return model

    def preprocess(
        self, texts: tf.Tensor, others: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Tokenizes texts and packs them into rows; also inside `tf.data`.

        Args:
          texts: string [B].
          others: string [B], second texts of pairs; None for single texts.

        Returns:
          "input_ids", "input_mask" and "segment_ids", int32 [B, L].
        """
        tokenize = self.tokenizer.in_graph.tokenize
        first = tokenize(texts)
        second = None if others is None else tokenize(others)
        return pack_rows(first, second, self.vocabulary, self.max_seq_length)

    def complete(self, inputs: Batch) -> dict[str, tf.Tensor]:
        """Adds missing inputs, and casts all to int32; see `complete_ids`."""
        longest = self.encoder.config.max_position_embeddings
        return complete_ids(inputs, optional=self.COLUMNS, longest=longest)

    def states(
        self, inputs: Batch, training: bool
    ) -> tuple[EncoderOutput, tf.Tensor | None]:
        """Runs the encoder; also returns keys of the head's dropout, [B]."""
        keys = None
        if training:
            call = tf.cast(self._calls.next()[1], tf.int32)
            num_rows = tf.shape(inputs["input_ids"])[0]
            keys = seeds.batch_keys(self.seed, call, num_rows)
        states = self.encoder(
            inputs["input_ids"],
            inputs["input_mask"],
            inputs["segment_ids"],
            seeds.fold_in(keys, 0),
        )
        return states, seeds.fold_in(keys, 1)

    def freeze(self, num_layers: int | None = None) -> None:
        """Excludes the lower layers from training; compile afterwards.

        Args:
          num_layers: blocks to freeze, with the embeddings; 0 for the
            embeddings alone. Default: the whole encoder.
        """
        encoder = self.encoder
        self.unfreeze()
        below = (encoder.embeddings, encoder.embeddings_project)
        for layer in (*below, *encoder.blocks[:num_layers]):
            if layer is not None:
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

        Variables outside of the encoder have the head's rate, also in a model
        of yours around this one.

        Differs from `run_finetuning`: Keras takes the gradient of the mean
        over the batch and does not clip it.

        Args:
          learning_rate: peak rate of the head. Default: the paper's, by the
            width of the encoder.
          num_train_steps: number of updates until the rate is 0. Default: the
            length of the first `fit`; required for a model of yours.
          warmup_proportion: share of the updates in which the rate rises.
          layerwise_lr_decay: rate of a layer as a share of the layer above.
            Default: the paper's.
          weight_decay_rate: weight decay, in units of the learning rate.
        """
        config = self.encoder.config
        rates = OptimizerConfig(
            learning_rate=learning_rate, layerwise_lr_decay=layerwise_lr_decay
        ).rates(config.hidden_size)
        return optimization.AdamWeightDecayOptimizer(
            FittedDecay(
                rates.learning_rate, warmup_proportion, num_train_steps
            ),
            weight_decay_rate,
            rates=optimization.layerwise_rates(
                [variable.path for variable in self.encoder.variables],
                rates.layerwise_lr_decay,
                config.num_hidden_layers,
            ),
        )

    def get_config(self) -> dict[str, Any]:
        return {
            "encoder_config": self.encoder.config.to_dict(),
            "vocabulary": vocabulary_config(self.vocabulary),
            "do_lower_case": self.tokenizer.do_lower_case,
            "strip_accents": self.tokenizer.strip_accents,
            "max_seq_length": self.max_seq_length,
            "seed": self.seed,
            "dtype": self.dtype_policy.name,
            "name": self.name,
            "frozen": self.frozen_layers(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        values = dict(config)
        vocabulary = vocabulary_from_config(values.pop("vocabulary"))
        encoder = BertConfig.from_dict(values.pop("encoder_config"))
        frozen = values.pop("frozen", ())
        model = cls(encoder, vocabulary, **values)
        model.freeze_layers(frozen)
        return model


@keras.saving.register_keras_serializable("electra_tf")
class ElectraBackbone(ElectraModel):
    """Encodes strings, or token ids, as vectors.

    Example:
      backbone = electra_tf.ElectraBackbone.from_checkpoint(path)
      texts = keras.Input((), dtype="string")
      vectors = backbone(texts)["pooled_output"]
      model = keras.Model(texts, keras.layers.Dense(2)(vectors))

    Functional models and subclasses can contain it. `embed` computes vectors
    without any training.

    Args: see `ElectraModel`.

    Call arguments:
      inputs: string [B], or a tuple of two for pairs; or "input_ids", int32
        [B, L], and optionally "input_mask", by default 1 where ids are not 0,
        and "segment_ids", by default 0, as `preprocess` makes them.
      training: whether dropout is on.

    Returns:
      "sequence_output", [B, L, H], and "pooled_output", [B, H], the state of
      [CLS]; of the policy's compute dtype. For strings also "input_ids" and
      "input_mask", int32 [B, L]. Padding also has states: pool over tokens
      with the mask.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.supports_jit = False  # XLA has no strings
        self.built = True

    def call(
        self, inputs: Batch | Strings, training: bool = False
    ) -> dict[str, tf.Tensor]:
        echoed = {}
        if not isinstance(inputs, Mapping):
            pair = inputs if isinstance(inputs, tuple | list) else (inputs,)
            inputs = self.preprocess(*pair)
            echoed = {k: inputs[k] for k in ("input_ids", "input_mask")}
        states, _ = self.states(self.complete(inputs), training)
        return {
            "sequence_output": states.sequence_output,
            "pooled_output": states.pooled_output,
            **echoed,
        }

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
        rows = self.tokenizer.rows(
            *columns_of(texts), length=self.max_seq_length
        )
        features = Features(rows)
        width = self.encoder.config.hidden_size
        vectors = np.zeros((features.num_rows, width), np.float32)
        for indices, batch in features.batches(batch_size):
            vectors[indices] = self._pooled(batch, pooling, layer).numpy()
        return vectors

    @tf.function(reduce_retracing=True, autograph=False)
    def _pooled(self, batch: Batch, pooling: str, layer: int) -> tf.Tensor:
        states, _ = self.states(batch, training=False)
        x = tf.cast(states.all_layers[layer], tf.float32)  # [B, L, H]
        if pooling == "cls":
            return x[:, 0]
        mask = tf.cast(batch["input_mask"], tf.float32)[..., tf.newaxis]
        return tf.reduce_sum(x * mask, 1) / tf.reduce_sum(mask, 1)
