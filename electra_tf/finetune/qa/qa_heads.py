"""Heads of question answering: the original's two, and Hugging Face's.

Source: the original's finetune/qa/qa_tasks.py.

Letters in shapes: B rows, L tokens, H hidden, K places in a beam.
"""

import tensorflow as tf

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.qa import qa_rows
from electra_tf.finetune.task import Head, Tensors
from electra_tf.model import layers, tensor_ops
from electra_tf.model.modeling import EncoderOutput

_HIDDEN_SIZE = 512
_THEIR_INITIALIZER_RANGE = 0.02  # of Hugging Face's layers
MASK_PENALTY = -1000.0
"""Added to a logit where no answer can be."""
SCORER_COLUMNS = ("input_ids", *qa_rows.SCORER_COLUMNS)
"""Columns of the rows that the scorer reads."""

BEAM = (
    "start_top_index",
    "end_top_index",
    "start_top_log_probs",
    "end_top_log_probs",
)
"""The best starts [B, K], the best ends given each [B, K, K], their scores."""


class QAHead(Head):
    """Scores starts and ends, and whether there is an answer.

    With joint prediction an end is scored given its start. Differs: outside of
    training, the original computes the loss of the end from logits of 0. Here
    starts are tried one by one, which takes K times less memory; and the half
    of the pair's layer that reads the end's token is computed once.

    The kind "hugging_face" scores both independently, on any token, by a dense
    layer each. Source: transformers' `ElectraForQuestionAnswering`, whose layer
    `qa_outputs` is split here into `dense` and `dense_1`. Differs: there an
    answer may also be at padding, so that losses depend on how much there is.
    """

    def __init__(self, name: str, kind: str, config: QAConfig) -> None:
        super().__init__(name, kind)
        self.config = config
        is_ours = kind == "electra"
        self.is_joint = is_ours and config.joint_prediction
        self.answerable_classifier = is_ours and config.answerable_classifier
        scale = None if is_ours else _THEIR_INITIALIZER_RANGE
        self.start = layers.Linear(1, scale, name="dense")
        self.end = layers.Linear(1, scale, name="dense_1")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        def built(
            name: str, width: int, units: int = _HIDDEN_SIZE
        ) -> layers.Linear:
            layer = layers.Linear(units, None, name=name)
            layer.build((None, width))
            return layer

        width = end_width = input_shape[-1]
        self.start.build(input_shape)
        if self.is_joint:
            self.hidden = built("qa_hidden", 2 * width)
            end_width = _HIDDEN_SIZE
        self.end.build((None, end_width))
        if not self.answerable_classifier:
            return
        name = "dense_2"
        if self.config.answerable_uses_start_logits:
            self.answerable_hidden = built("dense_2", 2 * width)
            width, name = _HIDDEN_SIZE, "dense_3"
        self.answerable = built(name, width, 1)

    def call(
        self,
        states: EncoderOutput,
        features: Tensors,
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        tokens = states.sequence_output  # [B, L, H]
        mask = tf.cast(features["input_mask"], tf.float32)
        if self.kind == "electra":  # the context, and [CLS]
            mask *= tf.cast(features["segment_ids"], tf.float32)
            mask += tf.one_hot(0, tensor_ops.shape_of(mask)[1])
        penalty = MASK_PENALTY * (1.0 - mask)  # [B, L]
        start_logits = tf.squeeze(self.start(tokens), -1) + penalty  # [B, L]
        outputs = {"start_logits": start_logits}
        if features.keys() >= {*SCORER_COLUMNS}:
            outputs |= {name: features[name] for name in SCORER_COLUMNS}
        if self.is_joint:
            is_training = keys is not None
            outputs |= self._ends_of_starts(
                tokens, start_logits, penalty, features, is_training
            )
        else:
            ends = tf.squeeze(self.end(tokens), -1)
            outputs["end_logits"] = ends + penalty
        if self.answerable_classifier:
            x = tokens[:, 0]  # [B, H]
            if self.config.answerable_uses_start_logits:
                weights = tf.nn.softmax(start_logits)
                start = tf.einsum("bl,blh->bh", weights, tokens)
                x = self.answerable_hidden(tf.concat([x, start], -1))
                x = tensor_ops.gelu(x)
            outputs["answerable_logit"] = tf.squeeze(self.answerable(x), -1)
        return outputs

    def _ends_of_starts(
        self,
        tokens: tf.Tensor,
        start_logits: tf.Tensor,
        penalty: tf.Tensor,
        features: Tensors,
        is_training: bool,
    ) -> dict[str, tf.Tensor]:
        """Scores ends given the gold start, and given the best starts."""
        start_kernel, end_kernel = tf.split(self.hidden.kernel, 2)  # [H, 512]
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
        end_scores, ends = (
            tf.transpose(x, [1, 0, 2])
            for x in tf.map_fn(
                lambda starts: _top_log_probs(logits(starts), count),
                tf.transpose(starts),  # [K, B]
                fn_output_signature=(tf.float32, tf.int32),
                parallel_iterations=1,
            )
        )
        beam = (starts, ends, start_scores, end_scores)
        outputs |= zip(BEAM, beam, strict=True)
        if not self.answerable_classifier:
            ends_of_cls = logits(tf.zeros_like(starts[:, 0]))
            outputs["null_log_prob"] = sum(
                tf.nn.log_softmax(x)[:, 0] for x in (start_logits, ends_of_cls)
            )
        return outputs

    def losses(self, outputs: Tensors, features: Tensors) -> tf.Tensor:
        sides = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                features[f"{side}_positions"], outputs[f"{side}_logits"]
            )
            for side in ("start", "end")
        ]
        losses = sum(sides) / 2.0
        if self.answerable_classifier:
            losses += self.config.answerable_weight * (
                tf.nn.sigmoid_cross_entropy_with_logits(
                    tf.cast(features["is_impossible"], tf.float32),
                    outputs["answerable_logit"],
                )
            )
        return losses


def _top_log_probs(
    logits: tf.Tensor, count: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the K best log probabilities and their places, [B, K] each."""
    length = tensor_ops.shape_of(logits)[1]
    best = tf.math.top_k(tf.nn.log_softmax(logits), tf.minimum(count, length))
    missing = [[0, 0], [0, count - tf.minimum(count, length)]]
    scores = tf.pad(
        best.values, missing, constant_values=tensor_ops.ZERO_PROB_LOGIT
    )
    return (
        tf.ensure_shape(scores, [None, count]),
        tf.ensure_shape(tf.pad(best.indices, missing), [None, count]),
    )


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


def null_scores(outputs: Tensors) -> tf.Tensor:
    """Returns the score of having no answer, [B].

    Differs: with a beam and no classifier, the original adds zero to the
    start's logit.
    """
    for name in ("answerable_logit", "null_log_prob"):
        if name in outputs:
            return outputs[name]
    return outputs["start_logits"][:, 0] + outputs["end_logits"][:, 0]
