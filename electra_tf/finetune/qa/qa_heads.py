"""Heads of question answering: the original's two, and Hugging Face's.

Source: the original's finetune/qa/qa_tasks.py.

Letters in shapes: B rows, L tokens, H hidden, K places in a beam.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.head import Head, require_kind
from electra_tf.model import layers, tensor_ops
from electra_tf.model.modeling import EncoderOutput

_HIDDEN_SIZE = 512
MASK_PENALTY = -1000.0
"""Added to a logit where no answer can be."""
SCORER_COLUMNS = (
    "input_ids",
    "word_numbers",
    "numbers_in_word",
    "is_max_context",
)
"""Columns of the rows that the scorer reads."""

BEAM = (
    "start_top_index",
    "end_top_index",
    "start_top_log_probs",
    "end_top_log_probs",
)
"""The best starts [B, K], the best ends given each [B, K, K], their scores."""

Tensors = Mapping[str, tf.Tensor]


class QAHead(Head):
    """Base class: a dense layer for the start and one for the end.

    Shapes: features [B, L], keys [B]; returns [B, L].
    """

    INITIALIZER_RANGE: ClassVar[float | None] = None  # Glorot uniform

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.start = layers.Linear(1, self.INITIALIZER_RANGE, name="dense")
        self.end = layers.Linear(1, self.INITIALIZER_RANGE, name="dense_1")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.start.build(input_shape)
        self.build_end(input_shape[-1])

    def build_end(self, width: int) -> None:
        """Creates the weights that score ends, for states of width H."""
        self.end.build((None, width))

    def call(
        self,
        states: EncoderOutput,
        features: Tensors,
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        tokens = states.sequence_output
        penalty = MASK_PENALTY * (1.0 - self.answer_mask(features))  # [B, L]
        start_logits = tf.squeeze(self.start(tokens), -1) + penalty  # [B, L]
        ends = self.ends(
            tokens,
            start_logits,
            features,
            penalty=penalty,
            is_training=keys is not None,
        )
        is_scored = features.keys() >= {*SCORER_COLUMNS}
        passed_on = {
            name: features[name] for name in SCORER_COLUMNS if is_scored
        }
        return {**passed_on, "start_logits": start_logits, **ends}

    def answer_mask(self, features: Tensors) -> tf.Tensor:
        """Returns 1 where an answer may be, else 0, float32 [B, L]."""
        in_context = features["input_mask"] * features["segment_ids"]
        length = tensor_ops.shape_of(in_context)[1]
        return tf.cast(in_context, tf.float32) + tf.one_hot(0, length)  # [CLS]

    def ends(
        self,
        tokens: tf.Tensor,
        start_logits: tf.Tensor,
        features: Tensors,
        *,
        penalty: tf.Tensor,
        is_training: bool,
    ) -> dict[str, tf.Tensor]:
        """Returns "end_logits", and the beam where there is one.

        Shapes: tokens [B, L, H], start_logits [B, L], penalty [B, L].
        """
        del start_logits, features, is_training
        return {"end_logits": tf.squeeze(self.end(tokens), -1) + penalty}

    def compute_output_shape(
        self, input_shape: tuple[int | None, ...]
    ) -> dict[str, tuple[int | None, ...]]:
        shape = (input_shape[0], None)
        return {"start_logits": shape, "end_logits": shape}

    def losses(self, outputs: Tensors, features: Tensors) -> tf.Tensor:
        """Computes the mean of the losses of start and end, float32 [B]."""
        sides = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                features[f"{side}_positions"], outputs[f"{side}_logits"]
            )
            for side in ("start", "end")
        ]
        return sum(sides) / 2.0


@keras.saving.register_keras_serializable("electra_tf")
class HuggingFaceQAHead(QAHead):
    """Scores starts and ends independently, on any token, by a dense layer.

    Source: transformers' `ElectraForQuestionAnswering`, whose layer
    `qa_outputs` is split here into `dense` and `dense_1`. Differs: there an
    answer may also be at padding, so that losses depend on how much there is.
    """

    INITIALIZER_RANGE = 0.02

    def answer_mask(self, features: Tensors) -> tf.Tensor:
        return tf.cast(features["input_mask"], tf.float32)


@keras.saving.register_keras_serializable("electra_tf")
class IndependentQAHead(QAHead):
    """Scores starts and ends independently, and whether there is an answer.

    Shapes: returns [B].
    """

    def __init__(self, name: str, qa: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.qa = dict(qa)
        self.config = QAConfig(**qa)

    @property
    def answerable_classifier(self) -> bool:
        """Whether the head also classifies if there is an answer."""
        return self.config.answerable_classifier

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        super().build(input_shape)
        if not self.answerable_classifier:
            return
        width, name = input_shape[-1], "dense_2"
        if self.config.answerable_uses_start_logits:
            self.answerable_hidden = layers.Linear(
                _HIDDEN_SIZE, None, name=name
            )
            self.answerable_hidden.build((None, 2 * width))
            width, name = _HIDDEN_SIZE, "dense_3"
        self.answerable = layers.Linear(1, None, name=name)
        self.answerable.build((None, width))

    def call(
        self,
        states: EncoderOutput,
        features: Tensors,
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        outputs = super().call(states, features, keys)
        if self.answerable_classifier:
            outputs["answerable_logit"] = self._answerable(
                states.sequence_output, outputs["start_logits"]
            )
        return outputs

    def _answerable(
        self, tokens: tf.Tensor, start_logits: tf.Tensor
    ) -> tf.Tensor:
        """Returns the logit that there is no answer, float32 [B]."""
        x = tokens[:, 0]  # [B, H]
        if self.config.answerable_uses_start_logits:
            weights = tf.nn.softmax(start_logits)
            start = tf.einsum("bl,blh->bh", weights, tokens)
            x = self.answerable_hidden(tf.concat([x, start], -1))
            x = tensor_ops.gelu(x)
        return tf.squeeze(self.answerable(x), -1)

    def losses(self, outputs: Tensors, features: Tensors) -> tf.Tensor:
        losses = super().losses(outputs, features)
        if not self.answerable_classifier:
            return losses
        return losses + self.config.answerable_weight * (
            tf.nn.sigmoid_cross_entropy_with_logits(
                tf.cast(features["is_impossible"], tf.float32),
                outputs["answerable_logit"],
            )
        )


@keras.saving.register_keras_serializable("electra_tf")
class JointQAHead(IndependentQAHead):
    """Joint prediction: like its base, but ends are scored given the start.

    Differs: outside of training, the original computes the loss of the end
    from logits of 0. Here starts are tried one by one, which takes K times less
    memory; and the half of the pair's layer that reads the end's token is
    computed once.

    Shapes: returns [B, K], [B, K, K], [B].
    """

    def build_end(self, width: int) -> None:
        self.hidden = layers.Linear(_HIDDEN_SIZE, None, name="qa_hidden")
        self.hidden.build((None, 2 * width))
        self.end.build((None, _HIDDEN_SIZE))

    def ends(
        self,
        tokens: tf.Tensor,
        start_logits: tf.Tensor,
        features: Tensors,
        *,
        penalty: tf.Tensor,
        is_training: bool,
    ) -> dict[str, tf.Tensor]:
        start_kernel, end_kernel = tf.split(
            self.hidden.kernel, 2
        )  # [H, 512] each
        end_part = tensor_ops.linear(tokens, end_kernel, self.hidden.bias)

        def logits(starts: tf.Tensor) -> tf.Tensor:  # [B] -> [B, L]
            start = tf.gather(tokens, starts, batch_dims=1)  # [B, H]
            pair = tf.matmul(start, start_kernel)[:, tf.newaxis] + end_part
            x = tf.squeeze(self.end(tensor_ops.gelu(pair)), -1)
            return x + penalty

        outputs = {}
        if "start_positions" in features:
            outputs["end_logits"] = logits(features["start_positions"])
        if is_training:
            return outputs
        count = self.config.beam_size  # K
        start_scores, starts = _top_log_probs(start_logits, count)
        end_scores, ends = tf.map_fn(
            lambda starts: _top_log_probs(logits(starts), count),
            tf.transpose(starts),  # [K, B]
            fn_output_signature=(tf.float32, tf.int32),
            parallel_iterations=1,
        )
        if not self.answerable_classifier:
            cls_positions = tf.zeros_like(starts[:, 0])
            outputs["null_log_prob"] = (
                tf.nn.log_softmax(start_logits)[:, 0]
                + tf.nn.log_softmax(logits(cls_positions))[:, 0]
            )
        return {
            **outputs,
            "start_top_log_probs": start_scores,
            "start_top_index": starts,
            "end_top_log_probs": tf.transpose(end_scores, [1, 0, 2]),
            "end_top_index": tf.transpose(ends, [1, 0, 2]),
        }


def _top_log_probs(
    logits: tf.Tensor, count: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the K best log probabilities and their places, [B, K] each."""
    length = tensor_ops.shape_of(logits)[1]
    found = tf.math.top_k(tf.nn.log_softmax(logits), tf.minimum(count, length))
    missing = [[0, 0], [0, count - tf.minimum(count, length)]]
    scores = tf.pad(
        found.values, missing, constant_values=tensor_ops.ZERO_PROB_LOGIT
    )
    return (
        tf.ensure_shape(scores, [None, count]),
        tf.ensure_shape(tf.pad(found.indices, missing), [None, count]),
    )


def make_head(name: str, kind: str, config: QAConfig) -> QAHead:
    """Makes a head; `kind` is one of `head.KINDS`."""
    require_kind(kind)
    if kind == "hugging_face":
        return HuggingFaceQAHead(name)
    kind = JointQAHead if config.joint_prediction else IndependentQAHead
    return kind(name, dataclasses.asdict(config))


def find_spans(
    outputs: Tensors,
    in_context: tf.Tensor,
    can_start: tf.Tensor,
    config: QAConfig,
) -> tuple[tf.Tensor, ...]:
    """Returns starts and ends, the scores of both, and which are valid.

    Differs: without a beam, the original also takes places outside of the
    context, and drops them only afterwards.

    Shapes: in_context [B, L], can_start [B, L]; returns [B, K], [B, K, K],
    [B, K], [B, K, K], [B, K, K].
    """
    if "start_top_index" in outputs:
        starts, ends, start_scores, end_scores = (
            outputs[name] for name in BEAM
        )
    else:
        length = tensor_ops.shape_of(in_context)[1]
        count = tf.minimum(config.n_best_size, length)
        (start_scores, starts), (scores, places) = (
            tf.math.top_k(
                tf.where(in_context, outputs[f"{side}_logits"], -float("inf")),
                count,
            )
            for side in ("start", "end")
        )
        each = tf.ones([1, count, 1], tf.int32)
        ends = each * places[:, tf.newaxis]
        end_scores = tf.cast(each, tf.float32) * scores[:, tf.newaxis]
    lengths = ends - starts[..., tf.newaxis] + 1
    is_valid = (
        tf.gather(can_start, starts, batch_dims=1)[..., tf.newaxis]
        & tf.gather(in_context, ends, batch_dims=1)
        & (lengths >= 1)
        & (lengths <= config.max_answer_length)
    )
    return starts, ends, start_scores, end_scores, is_valid


def null_scores(outputs: Mapping[str, Any]) -> Any:  # noqa: ANN401 (as given)
    """Returns the score of having no answer, [B].

    Differs: with a beam and no classifier, the original adds zero to the
    start's logit.
    """
    for name in ("answerable_logit", "null_log_prob"):
        if name in outputs:
            return outputs[name]
    return outputs["start_logits"][:, 0] + outputs["end_logits"][:, 0]
