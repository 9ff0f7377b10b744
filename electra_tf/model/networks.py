"""The public networks: an encoder, a pre-training head and a tokenizer.

`ElectraDiscriminator` and `ElectraGenerator` are Keras models. They are called
on ids or texts, loaded from a checkpoint, saved and exported. The objectives
train the same two.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Self

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import heads, layers, tensor_ops, text_reader
from electra_tf.model.modeling import BertModel, EncoderOutput
from electra_tf.model.text_reader import Ids, TextReader
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

IDS = ("input_ids", "input_mask", "segment_ids")
Batch = Mapping[str, tf.Tensor] | tf.Tensor
"""A dict of ids, or texts, string [B]."""


@keras.saving.register_keras_serializable("electra_tf")
class EncoderWithHead(keras.Model):
    """An encoder, and its pre-training head, if any.

    Args:
      config: sizes of the encoder.
      vocabulary: vocabulary of its tokens; None for a model that reads only
        ids.
      encoder: a built encoder to use; by default a new one.
      seed: seed of dropout for calls with `training=True` and without `keys`;
        None for dropout only with `keys`.
      dtype: policy; see `BertModel`. Default: Keras' global one.
      name: name of the model.
      **reader_options: how text is read, see `TextReader`: `do_lower_case`,
        `strip_accents`, and `max_seq_length`, by default 128 or less if the
        encoder has fewer positions.

    Call arguments:
      inputs: "input_ids", int32 [B, L], and optionally "input_mask", by
        default 1 where ids are not 0, and "segment_ids", by default 0; or
        texts, string [B], if the vocabulary is known.
      training: whether dropout is on.
      keys: uint32 [B], one random key a row, which determines dropout.
        Default: dropout differs from call to call.

    Returns:
      A dict: "sequence_output", float32 [B, L, H], and "pooled_output",
      float32 [B, H], the encoder's states and that of [CLS]; the outputs of the
      head; and for texts "input_ids" and "input_mask", int32 [B, L].
    """

    NETWORK = ""
    """Name of the network in checkpoints, one of `weights.NETWORKS`."""
    HEAD: ClassVar[type[keras.layers.Layer] | None] = None
    SERVED = IDS
    """Inputs of the exported model."""
    OPTIONAL_INPUTS: ClassVar[tuple[str, ...]] = ()
    """Names that a dict of ids may have beside `IDS`."""
    DEFAULT_LENGTH = 128

    def __init__(
        self,
        config: BertConfig,
        vocabulary: Vocabulary | None = None,
        *,
        encoder: BertModel | None = None,
        seed: int | None = 0,
        dtype: layers.Policy = None,
        name: str | None = None,
        **reader_options: Any,  # noqa: ANN401 (those of TextReader)
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        if self.dtype_policy.variable_dtype != "float32":
            raise UserError(
                f"Weights are float32, not {self.dtype_policy.name}."
            )
        self.supports_jit = False  # strings have no place in XLA
        self.config = config
        self.seed = seed
        self._calls = None if seed is None else keras.random.SeedGenerator(seed)
        self.reader = None
        if vocabulary is not None:
            text_reader.require_vocabulary_size(vocabulary, config.vocab_size)
            longest = config.max_position_embeddings
            self.reader = TextReader(
                vocabulary,
                **{"max_seq_length": min(self.DEFAULT_LENGTH, longest)}
                | reader_options,
                reads_masks=self.NETWORK == "generator",
            )
            text_reader.require_row_length(self.reader.max_seq_length, longest)
        self.encoder = encoder or BertModel(config, dtype=self.dtype_policy)
        if not self.encoder.built:
            self.encoder.build((None, None))
        self.head = None
        if self.HEAD is not None:
            self.head = self.HEAD(config, dtype=self.encoder.dtype_policy)
            self.head.build((None, None, config.hidden_size))
        self.built = True

    @property
    def vocabulary(self) -> Vocabulary | None:
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
          path: path of a checkpoint of the original or ours, or of a Hugging
            Face directory.
          network: "discriminator", "generator" or "corrector". Default: that
            of the class.
          vocab_file: vocabulary file. Default: the one beside the checkpoint.
          **options: arguments of the class except `config` and `vocabulary`.

        Raises:
          UserError: if it cannot be read, or holds no such network.
        """
        # Imported here, as `checkpoint` imports this module.
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
        ids = self.read(inputs) if is_text else self.complete(inputs)
        if training and keys is None:
            keys = self.dropout_keys(ids)
        states = self.encode(ids, keys)
        outputs = self.answer(states.sequence_output, ids) | {
            "sequence_output": states.sequence_output,
            "pooled_output": states.pooled_output,
        }
        if is_text:
            outputs |= {k: ids[k] for k in ("input_ids", "input_mask")}
        return outputs

    def answer(self, states: tf.Tensor, ids: Ids) -> dict[str, tf.Tensor]:
        """Returns the outputs of the head on states [B, L, H]."""
        del states, ids
        return {}

    def read(self, texts: tf.Tensor) -> Ids:
        """Converts texts, string [B], to ids; can be used in `tf.data`."""
        if self.reader is None:
            raise UserError("A network without a vocabulary reads no text.")
        return self.reader.read(tf.reshape(texts, [-1]))

    def complete(self, inputs: Mapping[str, tf.Tensor]) -> Ids:
        """Adds missing inputs, and casts all to int32."""
        return complete_ids(
            inputs,
            optional=self.OPTIONAL_INPUTS,
            longest=self.config.max_position_embeddings,
        )

    def dropout_keys(self, ids: Ids) -> tf.Tensor | None:
        """Makes the random keys of the rows of a call, [B]."""
        if self._calls is None:
            return None
        call = tf.cast(self._calls.next()[1], tf.int32)
        num_rows = tf.shape(ids["input_ids"])[0]
        return seeds.batch_keys(self.seed, call, num_rows)

    def encode(self, ids: Ids, keys: tf.Tensor | None = None) -> EncoderOutput:
        """Runs the encoder, with dropout if there are keys [B]."""
        return self.encoder(*(ids[name] for name in IDS), keys)

    def export(
        self,
        filepath: str,
        *arguments: Any,  # noqa: ANN401 (those of Keras)
        input_signature: Any = None,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Writes a SavedModel that runs without electra_tf."""
        ids = {
            name: keras.InputSpec(dtype="int32", shape=(None, None), name=name)
            for name in self.SERVED
        }
        signature = input_signature or [ids]
        super().export(
            filepath, *arguments, input_signature=signature, **options
        )

    def quantize(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        """Raises: Keras quantizes its own layers, and would skip these."""
        raise UserError("Keras cannot quantize this model: export it first.")

    def get_config(self) -> dict[str, Any]:
        encoder = self.encoder
        if encoder.embeddings.is_shared:
            raise UserError(
                f"{self.name} shares its embeddings: save the "
                "ElectraPretrainer, or what its `extract` returns."
            )
        return {
            "config": dataclasses.asdict(self.config),
            **({} if self.reader is None else self.reader.get_config()),
            "direction": encoder.direction,
            "is_packed": encoder.is_packed,
            "seed": self.seed,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
            "frozen": [
                "" if x is self else x.path
                for x in self._flatten_layers()
                if not x.trainable
            ],
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        values = {"direction": "both", "is_packed": False, **config}
        if "encoder_config" in values:  # of version 0.1
            values["config"] = values.pop("encoder_config")
        frozen = values.pop("frozen", ())
        if stored := values.get("vocabulary"):
            values["vocabulary"] = text_reader.vocabulary_from_config(stored)
        values["config"] = BertConfig(**values["config"])
        values["encoder"] = BertModel(
            values["config"],
            direction=values.pop("direction"),
            is_packed=values.pop("is_packed"),
            dtype=values["dtype"],
        )
        network = cls(**values)
        # A layer comes before its parts, which follow it until they are set.
        for layer in network._flatten_layers():
            path = "" if layer is network else layer.path
            layer.trainable = path not in frozen
        return network


def complete_ids(
    inputs: Mapping[str, tf.Tensor],
    *,
    optional: Collection[str] = (),
    longest: int | None = None,
) -> Ids:
    """Adds missing inputs to a batch of ids, and casts all to int32: [B, L]."""
    known = {*IDS, *optional}
    if not {"input_ids"} <= inputs.keys() <= known:
        raise ValueError(f"Ids are named {known}, not {[*inputs]}.")
    ids = {name: tf.cast(x, tf.int32) for name, x in inputs.items()}
    length = ids["input_ids"].shape[-1]
    if None not in (length, longest) and length > longest:  # GPUs read zeros
        raise ValueError(
            f"Rows of {length} ids exceed the {longest} position embeddings."
        )
    if "input_mask" not in ids:
        ids["input_mask"] = tf.cast(ids["input_ids"] > 0, tf.int32)
    ids.setdefault("segment_ids", tf.zeros_like(ids["input_ids"]))
    return ids


@keras.saving.register_keras_serializable("electra_tf")
class ElectraDiscriminator(EncoderWithHead):
    """Detects which tokens of a text were replaced.

    Example:
      discriminator = electra_tf.ElectraDiscriminator.from_checkpoint(path)
      discriminator(tf.constant(["the chef ate the meal"]))["logits"]  # [1, L]

    Args: see `EncoderWithHead`.

    Returns:
      As `EncoderWithHead`, and "logits", float32 [B, L]: over 0 means
      "replaced". With the objective electric they are energies: -log of an
      unnormalised probability, in nats.
    """

    NETWORK = "discriminator"
    HEAD = heads.DiscriminatorPredictions

    def answer(self, states: tf.Tensor, ids: Ids) -> dict[str, tf.Tensor]:
        return {"logits": self.head(states)}  # [B, L]


@keras.saving.register_keras_serializable("electra_tf")
class ElectraGenerator(EncoderWithHead):
    """Predicts masked tokens; "[MASK]" in a text is a mask token.

    Example:
      generator = electra_tf.ElectraGenerator.from_checkpoint(path)
      generator(tf.constant(["the [MASK] ate the meal"]))["logits"]  # [1, L, V]

    Args: see `EncoderWithHead`.

    Call arguments:
      inputs: as `EncoderWithHead`; ids may also have "positions", int32 [B, N],
        for logits only at these positions: the product with the word embeddings
        is most of the work.

    Returns:
      As `EncoderWithHead`, and "logits", float32 [B, L, V] or [B, N, V].
    """

    NETWORK = "generator"
    HEAD = heads.GeneratorPredictions
    OPTIONAL_INPUTS: ClassVar[tuple[str, ...]] = ("positions",)

    def answer(self, states: tf.Tensor, ids: Ids) -> dict[str, tf.Tensor]:
        if "positions" in ids:
            states = tensor_ops.gather_positions(states, ids["positions"])
        return {"logits": self.score(states)}

    def score(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the logits of all words: [..., H] -> [..., V]."""
        table = tf.convert_to_tensor(self.encoder.embeddings.word_embeddings)
        return self.head(states, table)
