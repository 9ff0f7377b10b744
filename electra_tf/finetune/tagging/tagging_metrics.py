"""Metrics of tagging: accuracy of words, and F1 of whole spans.

Differs: the original adds each loss twice, and does not score words that it
cut off.
"""

from collections.abc import Sequence

import numpy as np

from electra_tf.finetune.preprocessing import TaggedSentence
from electra_tf.finetune.scorer import (
    Answers,
    Metrics,
    Outputs,
    Scorer,
)
from electra_tf.finetune.tagging.spans import get_span_labels, in_encoding

Examples = Sequence[TaggedSentence]


class TaggingScorer(Scorer):
    """Accuracy over words; with an encoding of spans also their F1."""

    def __init__(
        self,
        label_list: Sequence[str],
        encoding: str = "",
        *,
        original_spans: bool = False,
        main_metric: str = "",
    ) -> None:
        self.label_list = label_list
        self.encoding = encoding
        self.original_spans = original_spans
        self.main_metric = main_metric or ("f1" if encoding else "accuracy")

    def score(self, outputs: Outputs, examples: Examples) -> Metrics:
        predicted, _ = self.tags(outputs, examples)
        num_words = sum(map(len, predicted))
        loss = float(np.sum(outputs["loss"])) / max(1, num_words)
        return {**self._metrics(examples, predicted), "loss": loss}

    def _metrics(
        self, examples: Examples, predicted: Sequence[Sequence[str]]
    ) -> Metrics:
        """Computes the metrics in percent."""
        golden = [example.tags for example in examples]
        words = [
            x == y
            for pair in zip(golden, predicted, strict=True)
            for x, y in zip(*pair, strict=True)
        ]
        accuracy = {"accuracy": 100 * sum(words) / max(1, len(words))}
        if not self.encoding:
            return accuracy
        golden, predicted = (
            {
                (number, *span)
                for number, tags in enumerate(sentences)
                for span in get_span_labels(tags, original=self.original_spans)
            }
            for sentences in (golden, predicted)
        )
        hits = len(golden & predicted)
        precision = 100 * hits / max(1, len(predicted))
        recall = 100 * hits / max(1, len(golden))
        f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
        return {"f1": f1, "precision": precision, "recall": recall, **accuracy}

    def answers(self, outputs: Outputs, examples: Examples) -> Answers:
        def encoded(tags: Sequence[str]) -> list[str]:
            encoding = self.encoding or "BIOES"
            return in_encoding(tags, encoding, original=self.original_spans)

        return [
            {
                "eid": example.eid,
                "words": example.words,
                "label": tuple(encoded(example.tags)),
                "prediction": encoded(tags),
                "confidences": confidences,
            }
            for example, tags, confidences in zip(
                examples, *self.tags(outputs, examples), strict=True
            )
        ]

    def is_constant(self, outputs: Outputs) -> bool:
        scored = outputs["labels_mask"] > 0
        return len(np.unique(outputs["predictions"][scored])) == 1

    def labels_of(self, example: TaggedSentence) -> tuple[str, ...]:
        return example.tags

    def tags(
        self, outputs: Outputs, examples: Examples
    ) -> tuple[list[list[str]], list[list[float]]]:
        """Merges the windows of each sentence into tags and confidences."""
        tags = [["O"] * len(example.words) for example in examples]
        confidences = [[0.0] * len(example.words) for example in examples]
        rows, places = np.nonzero(outputs["labels_mask"])
        for eid, word, tag, confidence in zip(
            outputs["eid"][rows].tolist(),
            (outputs["first_word"][rows] + places).tolist(),
            outputs["predictions"][rows, places].tolist(),
            outputs["confidences"][rows, places].tolist(),
            strict=True,
        ):
            tags[eid][word] = self.label_list[tag]
            confidences[eid][word] = confidence
        return tags, confidences
