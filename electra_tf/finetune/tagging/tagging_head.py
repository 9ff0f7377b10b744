"""Rows of words, windows over long sentences, and the layer that tags them.

Source: the original's finetune/tagging/tagging_tasks.py.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import tensorflow as tf

from electra_tf.finetune.preprocessing import Row, TextTokenizer, join
from electra_tf.finetune.task import Head
from electra_tf.model import layers, tensor_ops
from electra_tf.model.modeling import EncoderOutput

COLUMNS = ("first_word", "labels_mask", "labeled_positions")
"""Columns besides tokens; the last one holds the position of the first token
of each word."""


class TaggingHead(Head):
    """Scores the C tags of each word by its first token; no dropout.

    Hugging Face's token classification is the same function.
    """

    UNSCORED: ClassVar[tuple[str, ...]] = ("logits",)

    def __init__(self, name: str, num_tags: int) -> None:
        super().__init__(name=name)
        self.num_tags = num_tags
        self.dense = layers.Linear(num_tags, None, name="dense")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.dense.build(input_shape)

    def call(
        self,
        states: EncoderOutput,
        features: Mapping[str, tf.Tensor],
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        words = tensor_ops.gather_positions(
            states.sequence_output, features["labeled_positions"]
        )  # [B, L, H]
        logits = self.dense(words)  # [B, L, C]
        outputs = {
            "logits": logits,
            "predictions": tf.argmax(logits, -1, tf.int32),  # [B, L]
            "confidences": tf.reduce_max(tf.nn.softmax(logits), -1),
        }
        for name in {"labels_mask", "first_word"} & {*features}:
            outputs[name] = features[name]  # for the scorer
        return outputs

    def losses(
        self,
        outputs: Mapping[str, tf.Tensor],
        features: Mapping[str, tf.Tensor],
    ) -> tf.Tensor:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            features["labels"], outputs["logits"]
        )
        return tf.reduce_sum(losses * features["loss_mask"], -1)


def rows_of(
    sentences: Sequence[Sequence[str]],
    tokenizer: TextTokenizer,
    max_seq_length: int,
) -> Iterator[tuple[int, slice, Row]]:
    """Yields the number of a sentence, a window of its words, and its row."""
    window_size = max_seq_length - 2
    unknown = np.array([tokenizer.vocabulary.unk_id])
    tokens = iter(tokenizer.tokenize([*itertools.chain(*sentences)]))
    for number, sentence in enumerate(sentences):
        words = itertools.islice(tokens, len(sentence))
        pieces = [ids[:window_size] if ids.size else unknown for ids in words]
        for first, end, first_scored, end_scored in get_windows(
            [len(ids) for ids in pieces], window_size
        ):
            part = pieces[first:end]
            row = join(tokenizer.vocabulary, np.concatenate(part))
            row["segment_ids"] = np.ones_like(row["segment_ids"])
            row["first_word"] = first
            mask = np.zeros(len(part), np.float32)
            mask[first_scored - first : end_scored - first] = 1
            row["labels_mask"] = mask
            starts = np.cumsum([1, *map(len, part)])  # behind [CLS]
            row["labeled_positions"] = starts[:-1]
            yield number, slice(first, end), row


def get_windows(
    sizes: Sequence[int], window_size: int
) -> list[tuple[int, int, int, int]]:
    """Covers a sentence with windows: first word and end, of all and scored.

    Each word is scored once, where it has more context.
    """

    def end_of(first: int) -> int:
        fits = np.cumsum(sizes[first:]) <= window_size
        return first + int(fits.sum())

    spans = [(0, end_of(0))]
    while spans[-1][1] < len(sizes):
        before, end = spans[-1]
        overlap = min(window_size // 4, window_size - sizes[end])
        first, used = end, 0
        while first - 1 > before and used + sizes[first - 1] <= overlap:
            first -= 1
            used += sizes[first]
        spans.append((first, end_of(first)))
    cuts = [
        (end + first) // 2 for (_, end), (first, _) in itertools.pairwise(spans)
    ]
    scored = zip([0, *cuts], [*cuts, len(sizes)], strict=True)
    return [(*span, *part) for span, part in zip(spans, scored, strict=True)]
