"""The networks: embeddings, Transformer blocks as in BERT, and a head.

Read it from top to bottom and you know them. Discriminator and generator are
two encoders of different width over (by default) one set of embedding tables;
their heads are in `heads.py`.

Letters in shapes: B rows, L tokens in a row, N positions, E embedding, H
hidden, F feed-forward, V vocabulary.

Source: the original's model/modeling.py; variable paths are its names.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import (
    layers,
    neighbour_attention,
    packed_rows,
    tensor_ops,
)
from electra_tf.model.attention import SelfAttention, attention_bias
from electra_tf.model.heads import (
    DiscriminatorPredictions,
    GeneratorPredictions,
)
from electra_tf.model.text_reader import (
    Ids,
    TextReader,
    vocabulary_from_config,
)
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import seeds
from electra_tf.util.errors import UserError


class EncoderOutput(NamedTuple):
    """Outputs of an encoder for a batch.

    Attributes:
      sequence_output: float32 [B, L, H], the last block's states.
      pooled_output: float32 [B, H], the state of [CLS], as it is (no pooler);
        of packed rows that of the first document.
      all_layers: float32 [B, L, H] each, the states after every block.
      embedding_output: float32 [B, L, H], what the first block reads.
    """

    sequence_output: tf.Tensor
    pooled_output: tf.Tensor
    all_layers: list[tf.Tensor]
    embedding_output: tf.Tensor


@keras.saving.register_keras_serializable("electra_tf")
class Embeddings(keras.layers.Layer):
    """Sums word, position and segment vectors, then normalizes, in float32.

    Args:
      config: the encoder's sizes.
      name: name of the layer, part of its variables' paths.
    """

    def __init__(self, config: BertConfig, name: str = "embeddings") -> None:
        super().__init__(name=name, dtype="float32")
        self.config = config
        self.layer_norm = layers.LayerNorm(name="LayerNorm")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        config, width = self.config, self.config.embedding_size
        self.word_embeddings = self.make_words()
        self.token_type_embeddings = self.add_weight(
            shape=(config.type_vocab_size, width),
            initializer=layers.initializer(config.initializer_range),
            name="token_type_embeddings",
        )
        self.position_embeddings = self.add_weight(
            shape=(config.max_position_embeddings, width),
            initializer=_initial_positions(config),
            name="position_embeddings",
        )
        self.layer_norm.build((*input_shape, width))

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        word_offsets: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
    ) -> tf.Tensor:
        length = tensor_ops.shape_of(input_ids)[1]
        words = self.words(input_ids)
        if word_offsets is not None:
            words += word_offsets
        types = tf.gather(
            tf.convert_to_tensor(self.token_type_embeddings), segment_ids
        )
        if positions is None:
            places = self.position_embeddings[:length]  # [L, E]
        else:
            table = tf.convert_to_tensor(self.position_embeddings)
            places = tf.gather(table, positions)  # [B, L, E]
        return self.layer_norm(words + types + places)  # [B, L, E]

    def compute_output_shape(
        self, input_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        return (*input_shape, self.config.embedding_size)

    def make_words(self) -> keras.Variable:
        """Makes the table of words, [V, E]."""
        config = self.config
        return self.add_weight(
            shape=(config.vocab_size, config.embedding_size),
            initializer=layers.initializer(config.initializer_range),
            name="word_embeddings",
        )

    def words(self, input_ids: tf.Tensor) -> tf.Tensor:
        """Looks words up.

        Args:
          input_ids: int32 [B, L].

        Returns:
          float32 [B, L, E].
        """
        return tf.gather(tf.convert_to_tensor(self.word_embeddings), input_ids)

    def get_config(self) -> dict:
        return {"config": self.config.to_dict(), "name": self.name}

    @classmethod
    def from_config(cls, config: dict) -> "Embeddings":
        return cls(BertConfig(**config["config"]), name=config["name"])


@keras.saving.register_keras_serializable("electra_tf")
class TransformerBlock(keras.layers.Layer):
    """Attention, then a feed-forward network; each adds to x and normalizes.

    Args:
      config: the encoder's sizes.
      name: name of the layer, part of its variables' paths.
      dtype: policy; of "mixed_bfloat16" the matrix products alone are of
        bfloat16. Default: Keras' global one.
    """

    def __init__(
        self, config: BertConfig, name: str, dtype: layers.Policy = None
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        policy, scale = self.dtype_policy, config.initializer_range
        self.attention = SelfAttention(config, dtype=policy)
        self.attention_norm = layers.LayerNorm()
        self.intermediate = layers.Linear(
            config.intermediate_size, scale, name="dense", dtype=policy
        )
        self.dense = layers.Linear(
            config.hidden_size, scale, name="dense", dtype=policy
        )
        self.output_norm = layers.LayerNorm()

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.attention.build(input_shape)
        with keras.name_scope("attention"), keras.name_scope("output"):
            self.attention_norm.build(input_shape)
        with keras.name_scope("intermediate"):
            self.intermediate.build(input_shape)
        with keras.name_scope("output"):
            self.dense.build((*input_shape[:-1], self.config.intermediate_size))
            self.output_norm.build(input_shape)

    def call(
        self, x: tf.Tensor, bias: tf.Tensor, keys: tf.Tensor | None = None
    ) -> tf.Tensor:
        rate = self.config.hidden_dropout_prob
        attended = self.attention(x, bias, keys)  # [B, L, H]
        attended = tensor_ops.dropout(attended, rate, _fold(keys, 1))
        x = self.attention_norm(x + attended)
        hidden = tensor_ops.gelu(self.intermediate(x))  # [B, L, F]
        y = tensor_ops.dropout(self.dense(hidden), rate, _fold(keys, 2))
        return self.output_norm(x + y)  # [B, L, H]

    def compute_output_shape(
        self, input_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        return input_shape

    def get_config(self) -> dict:
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config: dict) -> "TransformerBlock":
        return cls(**config | {"config": BertConfig(**config["config"])})


@keras.saving.register_keras_serializable("electra_tf")
class BertModel(keras.layers.Layer):
    """The encoder of ELECTRA's discriminator, and of its generator.

    Args:
      config: sizes.
      name: "electra" or "generator", the root of its variables' paths.
      embeddings: what it reads; that of another encoder if it is built
        already. None for tables of its own.
      direction: what a token reads: "both" sides of it, or itself and what
        comes before it "left_to_right" or "right_to_left".
      is_packed: whether rows hold several documents: positions then start anew
        in each, and a token reads its own document only. Rows of one document
        have the same states as without, at a higher price.
      dtype: policy; of "mixed_bfloat16" the matrix products alone are of
        bfloat16: weights, sums, normalization, softmax and states stay
        float32. Default: Keras' global one.

    Call arguments:
      input_ids: int32 [B, L]; 0 past the end.
      input_mask: int32 [B, L]; 1 on real tokens, in packed rows the number of
        the document, from 1. Padding, 0, is never attended to.
      segment_ids: int32 [B, L]; 0 or 1.
      keys: uint32 [B], one random key a row; None switches dropout off.
      word_offsets: float32 [B, L, E], added to the word vectors; None for
        nothing.

    Returns:
      An `EncoderOutput`.
    """

    def __init__(
        self,
        config: BertConfig,
        name: str = "electra",
        embeddings: Embeddings | None = None,
        *,
        direction: str = "both",
        is_packed: bool = False,
        dtype: layers.Policy = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.direction = direction
        self.is_packed = is_packed
        self.embeddings = embeddings or Embeddings(config)
        self.embeddings_project = None
        if config.embedding_size != config.hidden_size:
            self.embeddings_project = layers.Linear(
                config.hidden_size,
                None,
                name="embeddings_project",
                dtype=self.dtype_policy,
            )
        self.blocks = [
            TransformerBlock(config, f"layer_{i}", self.dtype_policy)
            for i in range(config.num_hidden_layers)
        ]

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        if not self.embeddings.built:
            self.embeddings.build(input_shape)
        if self.embeddings_project is not None:
            self.embeddings_project.build(
                (*input_shape, self.config.embedding_size)
            )
        with keras.name_scope("encoder"):
            for block in self.blocks:
                block.build((*input_shape, self.config.hidden_size))
        self.initialize_attention(self.blocks)

    def initialize_attention(self, blocks: Sequence[TransformerBlock]) -> None:
        """Sets queries and keys as `attention_initializer` says.

        Args:
          blocks: built, of this encoder or standing on it.
        """
        if self.config.attention_initializer != "neighbours":
            return
        project = self.embeddings_project
        for block in blocks:
            query, key = block.attention.query, block.attention.key
            kernels = neighbour_attention.query_and_key(
                key.kernel.numpy(),
                self.config.num_attention_heads,
                None if project is None else project.kernel.numpy(),
                num_positions=self.config.max_position_embeddings,
                direction=self.direction,
            )
            query.kernel.assign(kernels[0])
            key.kernel.assign(kernels[1])

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        keys: tf.Tensor | None = None,
        word_offsets: tf.Tensor | None = None,
    ) -> EncoderOutput:
        bias = self.bias(input_mask)
        positions = (
            packed_rows.positions(input_mask) if self.is_packed else None
        )
        x = self.embeddings(
            input_ids, segment_ids, word_offsets, positions
        )  # [B, L, E]
        x = tensor_ops.dropout(
            x, self.config.hidden_dropout_prob, _fold(keys, 0)
        )
        if self.embeddings_project is not None:
            x = self.embeddings_project(x)  # [B, L, H]
        states = [x]
        for i, block in enumerate(self.blocks):
            states.append(block(states[-1], bias, _fold(keys, i + 1)))
        return EncoderOutput(
            sequence_output=states[-1],
            pooled_output=states[-1][:, 0],
            all_layers=states[1:],
            embedding_output=x,
        )

    def bias(self, input_mask: tf.Tensor) -> tf.Tensor:
        """Returns the additive mask that says what each token may read.

        Args:
          input_mask: int32 [B, L].
        """
        return attention_bias(
            input_mask, self.direction, is_packed=self.is_packed
        )

    def get_config(self) -> dict:
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "direction": self.direction,
            "is_packed": self.is_packed,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config: dict) -> "BertModel":
        return cls(**config | {"config": BertConfig(**config["config"])})


Batch = Mapping[str, tf.Tensor] | tf.Tensor
"""A dict of ids, or texts, string [B]."""


@keras.saving.register_keras_serializable("electra_tf")
class EncoderWithHead(keras.Model):
    """An encoder, and the pre-training head that stands on it, if any.

    Args:
      config: sizes of the encoder.
      vocabulary: of its tokens; None for a model that reads ids only.
      encoder: to stand on, built; by default a new one.
      seed: of dropout where `training=True` comes without `keys`; None for
        dropout with `keys` alone.
      dtype: policy; see `BertModel`. Default: Keras' global one.
      name: of the model.
      **reading: how text is read, see `TextReader`: `do_lower_case`,
        `strip_accents`, and `max_seq_length`, by default 128 or what the
        encoder can read.

    Call arguments:
      inputs: "input_ids", int32 [B, L], and optionally "input_mask", by
        default 1 where ids are not 0, and "segment_ids", by default 0; or
        texts, string [B], if the vocabulary is known.
      training: whether dropout is on.
      keys: uint32 [B], one random key a row, for dropout that is a function of
        them. Default: it differs from call to call.

    Returns:
      A dict: "sequence_output", float32 [B, L, H], and "pooled_output",
      float32 [B, H], the encoder's states and that of [CLS]; what the head
      answers; and of texts "input_ids" and "input_mask", int32 [B, L].
    """

    NETWORK = ""
    """Name in checkpoints, of `weights.NETWORKS`."""

    def __init__(
        self,
        config: BertConfig,
        vocabulary: Vocabulary | None = None,
        *,
        encoder: BertModel | None = None,
        seed: int | None = 0,
        dtype: layers.Policy = None,
        name: str | None = None,
        **reading: Any,  # noqa: ANN401 (those of TextReader)
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.supports_jit = False  # strings have no place in XLA
        self.config = config
        self.seed = seed
        self._calls = None if seed is None else keras.random.SeedGenerator(seed)
        self.reader = None
        if vocabulary is not None:
            longest = min(128, config.max_position_embeddings)
            self.reader = TextReader(
                vocabulary,
                reads_masks=self.NETWORK == "generator",
                **{"max_seq_length": longest, **reading},
            )
        self.encoder = encoder or BertModel(config, dtype=self.dtype_policy)
        if not self.encoder.built:
            self.encoder.build((None, None))
        self.head = self.make_head()
        if self.head is not None:
            self.head.build((None, None, config.hidden_size))
        self.built = True

    def make_head(self) -> keras.layers.Layer | None:
        """Makes the head; this class has none."""
        return None

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The tokens, where they are known."""
        return self.reader and self.reader.vocabulary

    @classmethod
    def from_checkpoint(
        cls,
        path: str,
        network: str = "",
        *,
        vocab_file: str = "",
        **options: Any,  # noqa: ANN401 (those of the class)
    ) -> Self:
        """Makes a network with the weights of a checkpoint.

        Args:
          path: of a checkpoint of the original's, of ours, or of Hugging
            Face's.
          network: "discriminator", "generator" or "corrector". Default: that
            of the class.
          vocab_file: of the tokens. Default: the one beside the checkpoint.
          **options: of the class, but for `config` and `vocabulary`.

        Raises:
          UserError: if it cannot be read, or holds no such network.
        """
        # Checkpoints know networks; a network finds them only when asked to.
        from electra_tf.checkpoint import loading

        return loading.load(
            path, network, cls, vocab_file=vocab_file, **options
        )

    def call(
        self,
        inputs: Batch,
        training: bool = False,
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        is_text = not isinstance(inputs, Mapping)
        ids = self.read(inputs) if is_text else complete_ids(inputs)
        if training and keys is None and self._calls is not None:
            keys = self._new_keys(tf.shape(ids["input_ids"])[0])
        states = self.encoder(
            ids["input_ids"], ids["input_mask"], ids["segment_ids"], keys
        )
        outputs = self.answer(states.sequence_output, ids) | {
            "sequence_output": states.sequence_output,
            "pooled_output": states.pooled_output,
        }
        if is_text:
            outputs |= {k: ids[k] for k in ("input_ids", "input_mask")}
        return outputs

    def answer(
        self, states: tf.Tensor, ids: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Returns what the head answers.

        Args:
          states: float32 [B, L, H], of the encoder.
          ids: what it read.
        """
        del states, ids
        return {}

    def read(self, texts: tf.Tensor) -> Ids:
        """Turns texts into ids; also inside `tf.data`.

        Args:
          texts: string [B].

        Raises:
          UserError: if the vocabulary is not known.
        """
        if self.reader is None:
            raise UserError(
                "A network that reads text must have a vocabulary. Received: "
                "texts, without one. Give `vocabulary` or `vocab_file`, or "
                '{"input_ids": ids}.'
            )
        return self.reader.read(tf.reshape(texts, [-1]))

    def _new_keys(self, num_rows: tf.Tensor) -> tf.Tensor:
        replica = tf.distribute.get_replica_context()
        first = replica.replica_id_in_sync_group * num_rows if replica else 0
        step = tf.cast(self._calls.next()[1], tf.int32)
        return seeds.row_keys(self.seed, step, tf.range(num_rows) + first)

    def export(
        self,
        filepath: str,
        *arguments: Any,  # noqa: ANN401 (those of Keras)
        input_signature: Any = None,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Writes a SavedModel that answers without electra_tf.

        Args:
          filepath: of its directory.
          *arguments: of `keras.Model.export`.
          input_signature: what it is called with. Default: "input_ids",
            "input_mask" and "segment_ids", int32, of any size.
          **options: of `keras.Model.export`.
        """
        ids = {
            name: keras.InputSpec(dtype="int32", shape=(None, None), name=name)
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        signature = input_signature or [ids]
        super().export(
            filepath, *arguments, input_signature=signature, **options
        )

    def get_config(self) -> dict[str, Any]:
        encoder = self.encoder
        if type(encoder.embeddings) is not Embeddings:
            raise UserError(
                "A network that is saved must have embeddings of its own. "
                f"Received: {self.name}, with "
                f"{type(encoder.embeddings).__name__}. Save the "
                "ElectraPretrainer, or what its `extract` returns."
            )
        return {
            "config": self.config.to_dict(),
            **({} if self.reader is None else self.reader.get_config()),
            "direction": encoder.direction,
            "is_packed": encoder.is_packed,
            "seed": self.seed,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        values = dict(config)
        if "vocabulary" in values:
            values["vocabulary"] = vocabulary_from_config(values["vocabulary"])
        values["config"] = BertConfig(**values["config"])
        values["encoder"] = BertModel(
            values["config"],
            direction=values.pop("direction"),
            is_packed=values.pop("is_packed"),
            dtype=values["dtype"],
        )
        return cls(**values)


@keras.saving.register_keras_serializable("electra_tf")
class ElectraDiscriminator(EncoderWithHead):
    """Tells which tokens of a text were replaced.

    Example:
      discriminator = electra_tf.ElectraDiscriminator.from_checkpoint(path)
      discriminator(tf.constant(["the chef ate the meal"]))["logits"]  # [1, L]

    Args: see `EncoderWithHead`.

    Returns:
      As `EncoderWithHead`, and "logits", float32 [B, L]: over 0 means
      "replaced". Of the objective electric they are the energies, -log of an
      unnormalised probability, in nats.
    """

    NETWORK = "discriminator"

    def make_head(self) -> keras.layers.Layer:
        config = self.config
        return DiscriminatorPredictions(
            config.hidden_size, config.initializer_range
        )

    def answer(
        self, states: tf.Tensor, ids: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        return {"logits": self.head(states)}  # [B, L]


@keras.saving.register_keras_serializable("electra_tf")
class ElectraGenerator(EncoderWithHead):
    """Predicts masked tokens; "[MASK]" in text is a mask.

    Example:
      generator = electra_tf.ElectraGenerator.from_checkpoint(path)
      generator(tf.constant(["the [MASK] ate the meal"]))["logits"]  # [1, L, V]

    Args: see `EncoderWithHead`.

    Call arguments:
      inputs: as `EncoderWithHead`; of ids also "positions", int32 [B, N], for
        logits at these positions alone: the product with all words is most of
        the work.

    Returns:
      As `EncoderWithHead`, and "logits", float32 [B, L, V] or [B, N, V].
    """

    NETWORK = "generator"

    def make_head(self) -> keras.layers.Layer:
        config = self.config
        return GeneratorPredictions(
            config.embedding_size, config.vocab_size, config.initializer_range
        )

    def answer(
        self, states: tf.Tensor, ids: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        if "positions" in ids:
            states = tensor_ops.gather_positions(states, ids["positions"])
        return {"logits": self.score(states)}

    def score(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the logits of all words.

        Args:
          states: float32 [..., H], of the encoder.

        Returns:
          float32 [..., V].
        """
        table = tf.convert_to_tensor(self.encoder.embeddings.word_embeddings)
        return self.head(states, table)


def complete_ids(inputs: Mapping[str, tf.Tensor]) -> Ids:
    """Fills in what a batch of ids leaves out, and casts all to int32.

    The cast is for Keras, which traces models under a strategy with float32.

    Args:
      inputs: "input_ids", [B, L], and optionally the others of `Ids`.
    """
    ids = {name: tf.cast(x, tf.int32) for name, x in inputs.items()}
    if "input_mask" not in ids:
        ids["input_mask"] = tf.cast(ids["input_ids"] > 0, tf.int32)
    ids.setdefault("segment_ids", tf.zeros_like(ids["input_ids"]))
    return ids


def _initial_positions(config: BertConfig) -> keras.initializers.Initializer:
    """Returns how the position table starts."""
    if config.attention_initializer == "truncated_normal":
        return layers.initializer(config.initializer_range)
    table = neighbour_attention.position_table(
        config.max_position_embeddings, config.embedding_size
    )
    return keras.initializers.Constant(config.initializer_range * table)


def _fold(keys: tf.Tensor | None, purpose: int) -> tf.Tensor | None:
    return None if keys is None else seeds.fold_in(keys, purpose)
