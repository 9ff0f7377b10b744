"""The tags of answers in a graph, equal to those of `spans.in_encoding`.

Letters in shapes: B sentences, W words.
"""

from collections.abc import Sequence

import tensorflow as tf

from electra_tf.finetune.tagging.spans import get_span_labels


class ServedTags:
    """Writes predicted tags in the encoding of answers."""

    def __init__(
        self, labels: Sequence[str], encoding: str, *, original: bool = False
    ) -> None:
        self.labels = (*labels, "O")  # the last where there is no word
        self.encoding = encoding
        self.original = original

    def __call__(self, tags: tf.Tensor, is_word: tf.Tensor) -> tf.Tensor:
        """Returns the tags of answers, string [B, W]."""
        none = len(self.labels) - 1
        tags = tf.where(is_word, tags, none)
        if self.encoding == "BIOES":
            return tf.gather(self.labels, tags)
        before = tf.pad(tags, [[0, 0], [1, 0]], constant_values=none)[:, :-1]
        begins = tf.gather_nd(self._begins(), tf.stack([before, tags], -1))
        kinds = tf.gather([x.partition("-")[2] for x in self.labels], tags)
        if self.original:
            kinds = _kinds_of_last_words(kinds, begins)
        has_b = begins
        if self.encoding == "IOB1":
            has_b &= kinds == tf.pad(kinds, [[0, 0], [1, 0]])[:, :-1]
        written = tf.strings.join([tf.where(has_b, "B-", "I-"), kinds])
        return tf.where(kinds == "", "O", written)

    def _begins(self) -> list[list[bool]]:
        """Returns bool [tags, tags], for each pair of neighbours."""
        return [
            [
                any(
                    span.first == 1
                    for span in get_span_labels(
                        [before, tag], original=self.original
                    )
                )
                for tag in self.labels
            ]
            for before in self.labels
        ]


def _kinds_of_last_words(kinds: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
    """Gives each word the kind of the last word of its span."""
    is_first = tf.reshape(begins | (kinds == ""), [-1])
    spans = tf.cumsum(tf.cast(is_first, tf.int32)) - 1
    last = tf.math.segment_max(tf.range(tf.size(spans)), spans)
    flat = tf.gather(tf.reshape(kinds, [-1]), tf.gather(last, spans))
    return tf.reshape(flat, tf.shape(kinds))
