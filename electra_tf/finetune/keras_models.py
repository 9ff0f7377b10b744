"""Fine-tuned models the way Keras' users write them: compile and fit on text.

Encoder, tokenizer and head are those of `run_finetuning`.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from electra_tf.finetune.classification.classification_heads import (
    ClassificationHead,
)
from electra_tf.model import checkpoint_formats, loading, optimization
from electra_tf.model.bert_config import BertConfig
from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.modeling import BertModel
from electra_tf.model.tokenization import Vocabulary
from electra_tf.model.weights import ENCODER, select
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

_NAME = "classifier"

Texts = Sequence[str] | tuple[Sequence[str], Sequence[str]] | tf.data.Dataset
"""Texts; pairs of them as two sequences; or batches of them, with labels if
there are any."""
Labels = Sequence[int] | None


@keras.saving.register_keras_serializable("electra_tf")
class ElectraClassifier(keras.Model):
    """Classifies texts, or pairs of them.

    `fit`, `evaluate` and `predict` take texts as they are: a sequence of
    strings, or a tuple of two for pairs; or a `tf.data.Dataset` of batches.

    Example:
      model = electra_tf.ElectraClassifier.from_checkpoint(path, num_classes=2)
      model.compile(
          model.make_optimizer(3e-4, num_train_steps=750),
          keras.losses.SparseCategoricalCrossentropy(from_logits=True),
          metrics=["accuracy"],
      )
      model.fit(["a fine film", "a dull one"], [1, 0], epochs=3)
      logits = model.predict(["what a film"])
      model.save("film.keras")

    In another process `keras.saving.load_model("film.keras")` finds the class
    once `electra_tf.ElectraClassifier` has been named there.

    Args:
      encoder_config: of the encoder; see `BertConfig`.
      vocabulary: of the tokens.
      num_classes: C.
      do_lower_case: whether the tokenizer lower-cases.
      strip_accents: whether it then drops accents.
      max_seq_length: L, tokens in a row; what is longer is cut.
      head: "electra" or "hugging_face", see `ClassificationHead`.
      seed: of dropout.

    Call arguments:
      inputs: "input_ids", "input_mask" and "segment_ids", int32 [B, L], as
        `preprocess` makes them.
      training: whether dropout is on.

    Returns:
      float32 [B, C], logits.
    """

    def __init__(
        self,
        encoder_config: BertConfig,
        vocabulary: Vocabulary,
        num_classes: int,
        *,
        do_lower_case: bool = True,
        strip_accents: bool = True,
        max_seq_length: int = 128,
        head: str = "electra",
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.num_classes = num_classes
        self.do_lower_case = do_lower_case
        self.strip_accents = strip_accents
        self.max_seq_length = max_seq_length
        self.seed = seed
        self.encoder = BertModel(encoder_config)
        self.encoder.build((None, None))
        self.head = ClassificationHead(_NAME, num_classes, head)
        with keras.name_scope("task_specific"):
            self.head.build((None, encoder_config.hidden_size))
        self._calls = keras.random.SeedGenerator(seed)
        self._tokenizer = make_tokenizer(
            vocabulary, do_lower_case, strip_accents
        )
        self.built = True

    @classmethod
    def from_checkpoint(
        cls, path: str, num_classes: int = 2, **arguments: object
    ) -> Self:
        """Makes a classifier on a pre-trained encoder, with a new head.

        Args:
          path: of a checkpoint of the original's, of ours, or of Hugging
            Face's, also a fine-tuned one, whose head is dropped.
          num_classes: C.
          **arguments: further arguments of the class.

        Raises:
          UserError: if it cannot be read, or if its vocabulary is not known.
        """
        weights = select(checkpoint_formats.read(path), ENCODER)
        if weights.vocabulary is None:
            raise UserError(
                "The encoder's vocabulary must be known. Received: none "
                f"beside {weights.origin}. Put vocab.txt there."
            )
        config = weights.architecture.encoder
        default = min(128, config.max_position_embeddings)
        told = {
            "do_lower_case": weights.do_lower_case is not False,
            "strip_accents": weights.strip_accents is not False,
            "max_seq_length": default,
        }
        model = cls(
            config, weights.vocabulary, num_classes, **(told | arguments)
        )
        source = loading.make(weights).encoder
        for mine, theirs in zip(
            model.encoder.variables, source.variables, strict=True
        ):
            mine.assign(theirs)
        return model

    def make_optimizer(
        self,
        learning_rate: float = 3e-4,
        *,
        num_train_steps: int,
        warmup_proportion: float = 0.1,
        layerwise_lr_decay: float = 0.8,
        weight_decay_rate: float = 0.0,
    ) -> optimization.AdamWeightDecayOptimizer:
        """Makes the original's optimizer, with a rate for each depth.

        Differs from `run_finetuning`: Keras takes the gradient of the mean
        over the batch, and it is not clipped.

        Args:
          learning_rate: peak, of the head.
          num_train_steps: updates.
          warmup_proportion: share of them in which the rate rises from 0.
          layerwise_lr_decay: share of the rate of the layer above.
          weight_decay_rate: decay of weights, in units of the rate.
        """
        paths = [variable.path for variable in self.trainable_variables]
        return optimization.AdamWeightDecayOptimizer(
            optimization.WarmupPolynomialDecay(
                learning_rate,
                num_train_steps,
                num_train_steps * warmup_proportion,
            ),
            weight_decay_rate,
            rates=optimization.layerwise_rates(
                paths, layerwise_lr_decay, self.encoder.config.num_hidden_layers
            ),
        )

    def preprocess(
        self, texts: tf.Tensor, others: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Turns texts into what the model reads; also inside `tf.data`.

        Args:
          texts: string [B].
          others: string [B], the second of each pair; None for single texts.
        """
        first = self._tokenizer.tokenize(texts)
        second = None if others is None else self._tokenizer.tokenize(others)
        return pack(first, second, self.vocabulary, self.max_seq_length)

    def call(
        self, inputs: Mapping[str, tf.Tensor], training: bool = False
    ) -> tf.Tensor:
        keys = second = None
        if training:
            rows = tf.range(tf.shape(inputs["input_ids"])[0])
            step = tf.cast(self._calls.next()[1], tf.int32)
            keys = seeds.row_keys(self.seed, step, rows)
            second = seeds.fold_in(keys, 1)
        states = self.encoder(
            inputs["input_ids"],
            inputs["input_mask"],
            inputs["segment_ids"],
            None if keys is None else seeds.fold_in(keys, 0),
        )
        return self.head(states, {}, second)["logits"]

    def fit(
        self, x: Texts, y: Labels = None, **arguments: object
    ) -> keras.callbacks.History:
        """Trains on texts; see the class, and `keras.Model.fit`."""
        size = arguments.pop("batch_size", 32)
        shuffles = arguments.pop("shuffle", True)
        validation = arguments.pop("validation_data", None)
        if validation is not None:
            is_pair = isinstance(validation, tuple)
            texts_and_labels = validation if is_pair else (validation,)
            validation = _batches(self, *texts_and_labels, batch_size=size)
        data = _batches(self, x, y, batch_size=size, shuffles=shuffles)
        return super().fit(
            data, validation_data=validation, shuffle=False, **arguments
        )

    def evaluate(
        self, x: Texts, y: Labels = None, **arguments: object
    ) -> float | list[float] | dict[str, float]:
        """Computes loss and metrics; see the class."""
        size = arguments.pop("batch_size", 32)
        data = _batches(self, x, y, batch_size=size)
        return super().evaluate(data, **arguments)

    def predict(self, x: Texts, **arguments: object) -> np.ndarray:
        """Computes the logits of texts; see the class."""
        size = arguments.pop("batch_size", 32)
        return super().predict(_batches(self, x, batch_size=size), **arguments)

    def get_config(self) -> dict[str, Any]:
        model = base64.b64encode(self.vocabulary.sentencepiece).decode()
        return {
            "encoder_config": self.encoder.config.to_dict(),
            "vocabulary": {
                "tokens": list(self.vocabulary.tokens),
                "sentencepiece": model,
            },
            "num_classes": self.num_classes,
            "do_lower_case": self.do_lower_case,
            "strip_accents": self.strip_accents,
            "max_seq_length": self.max_seq_length,
            "head": self.head.kind,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        values = dict(config)
        stored = values.pop("vocabulary")
        vocabulary = Vocabulary(
            tuple(stored["tokens"]),
            sentencepiece=base64.b64decode(stored["sentencepiece"]),
        )
        encoder = BertConfig.from_dict(values.pop("encoder_config"))
        return cls(encoder, vocabulary, **values)


def pack(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None,
    vocabulary: Vocabulary,
    length: int,
) -> dict[str, tf.Tensor]:
    """Makes rows of one or two texts, in a graph.

    The rows are those of `preprocessing.join` and `truncate_pair`.

    Args:
      first: int32 [B, (n)], ids.
      second: int32 [B, (m)], ids; None for single texts.
      vocabulary: of the tokens.
      length: L, tokens of each row.

    Returns:
      "input_ids", "input_mask" and "segment_ids", int32 [B, L].
    """
    rows = first.nrows(out_type=tf.int32)
    cls = tf.fill([rows, 1], vocabulary.cls_id)
    sep = tf.fill([rows, 1], vocabulary.sep_id)
    if second is None:
        parts = [tf.concat([cls, first[:, : length - 2], sep], 1)]
    else:
        first, second = _truncated(first, second, length - 3)
        parts = [
            tf.concat([cls, first, sep], 1),
            tf.concat([second, sep], 1),
        ]
    ids = tf.concat(parts, 1)
    segments = tf.concat(
        [tf.ones_like(part) * i for i, part in enumerate(parts)], 1
    )
    shape = [None, length]
    sizes = ids.row_lengths()
    return {
        "input_ids": ids.to_tensor(shape=shape),
        "input_mask": tf.sequence_mask(sizes, length, tf.int32),
        "segment_ids": segments.to_tensor(shape=shape),
    }


def _truncated(
    first: tf.RaggedTensor, second: tf.RaggedTensor, size: int
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    n, m = first.row_lengths(), second.row_lengths()
    half = tf.constant(size // 2, n.dtype)
    rest = size - half
    kept_n = tf.where(m <= half, size - m, tf.minimum(n, rest))
    kept_m = tf.where(m <= half, m, tf.maximum(half, size - n))
    fits = n + m <= size
    return (
        _cut(first, tf.where(fits, n, kept_n)),
        _cut(second, tf.where(fits, m, kept_m)),
    )


def _cut(tokens: tf.RaggedTensor, sizes: tf.Tensor) -> tf.RaggedTensor:
    places = tf.ragged.range(tokens.row_lengths())
    return tf.ragged.boolean_mask(tokens, places < sizes[:, tf.newaxis])


def _batches(
    model: ElectraClassifier,
    x: Texts,
    y: Labels = None,
    *,
    batch_size: int,
    shuffles: bool = False,
) -> tf.data.Dataset:
    """Makes batches of what the model reads from texts.

    Args:
      model: that reads them.
      x: the texts; or such batches, which are returned as they are.
      y: labels; None where there are none, or where the dataset has them.
      batch_size: rows in a batch.
      shuffles: whether to permute the rows anew in every epoch.
    """
    if not isinstance(x, tf.data.Dataset):
        texts = tuple(map(_strings, x)) if isinstance(x, tuple) else _strings(x)
        data = (texts,) if y is None else (texts, np.asarray(y))
        x = tf.data.Dataset.from_tensor_slices(data)
        if shuffles:
            x = x.shuffle(x.cardinality(), seed=model.seed)
        x = x.batch(batch_size)
    spec = x.element_spec
    if isinstance(spec[0] if isinstance(spec, tuple) else spec, dict):
        return x

    def read(
        texts: tf.Tensor | tuple[tf.Tensor, tf.Tensor], *labels: tf.Tensor
    ) -> tuple:
        pair = texts if isinstance(texts, tuple) else (texts,)
        return (model.preprocess(*pair), *labels)

    return x.map(read, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)


def _strings(texts: Sequence[str]) -> tf.Tensor:
    return tf.constant(list(texts), tf.string)
