"""Metrics of tagging: accuracy of words, and F1 of whole spans.

Differs: the original adds each loss twice, and does not score words that it
cut off.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from electra_tf.finetune.preprocessing import TaggedSentence
from electra_tf.finetune.scorer import (
    Outputs,
    Scorer,
    mean,
    mean_log_probabilities,
)
from electra_tf.finetune.tagging.spans import get_span_labels, in_encoding


class TaggingScorer(Scorer):
    """Accuracy over words; with an encoding of spans also their F1."""

    ensemble_outputs: ClassVar[tuple[str, ...]] = ("logits",)

    def __init__(
        self,
        label_list: Sequence[str],
        encoding: str = "",
        *,
        original_spans: bool = False,
        main_metric: str = "",
    ) -> None:
        self.label_list = tuple(label_list)
        self.encoding = encoding
        self.original_spans = original_spans
        self.main_metric = main_metric or ("f1" if encoding else "accuracy")

    def score(
        self, outputs: Outputs, examples: Sequence[TaggedSentence]
    ) -> dict[str, float]:
        predicted, _ = self.tags(outputs, examples)
        num_words = sum(len(example.words) for example in examples)
        golden = [example.tags for example in examples]
        pairs = list(zip(golden, predicted, strict=True))
        loss = float(np.sum(outputs["loss"])) / max(1, num_words)
        return {**self.metrics(pairs), "loss": loss}

    def majority(
        self,
        train: Sequence[TaggedSentence],
        examples: Sequence[TaggedSentence],
    ) -> dict[str, float]:
        """Computes the metrics of giving each word its most frequent tag."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        total: Counter[str] = Counter()
        for sentence in train:
            total.update(sentence.tags)
            for word, tag in zip(sentence.words, sentence.tags, strict=True):
                counts[word][tag] += 1
        most_frequent = {
            word: found.most_common(1)[0][0] for word, found in counts.items()
        }
        default = total.most_common(1)[0][0]
        return self.metrics(
            [
                (x.tags, [most_frequent.get(w, default) for w in x.words])
                for x in examples
            ]
        )

    def metrics(
        self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
    ) -> dict[str, float]:
        """Computes the metrics of gold and predicted tags, in percent."""
        words = [a == b for x, y in pairs for a, b in zip(x, y, strict=True)]
        accuracy = {"accuracy": 100 * sum(words) / max(1, len(words))}
        if not self.encoding:
            return accuracy
        right = predicted = hits = 0
        for tags in pairs:
            golden, found = (
                get_span_labels(x, original=self.original_spans) for x in tags
            )
            right += len(golden)
            predicted += len(found)
            hits += len({*golden} & {*found})
        precision = hits / max(1, predicted)
        recall = hits / max(1, right)
        f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
        shares = {"f1": f1, "precision": precision, "recall": recall}
        return {**{k: 100 * x for k, x in shares.items()}, **accuracy}

    def answers(
        self, outputs: Outputs, examples: Sequence[TaggedSentence]
    ) -> list[dict[str, Any]]:
        return [
            {
                "eid": example.eid,
                "words": example.words,
                "label": tuple(self._encoded(example.tags)),
                "prediction": self._encoded(tags),
                "confidences": confidences,
            }
            for example, tags, confidences in zip(
                examples, *self.tags(outputs, examples), strict=True
            )
        ]

    def _encoded(self, tags: Sequence[str]) -> list[str]:
        """Returns the tags of a sentence in the encoding of answers."""
        if not self.encoding:
            return list(tags)
        return in_encoding(tags, self.encoding, original=self.original_spans)

    def combine(self, outputs: Sequence[Outputs]) -> Outputs:
        logits = mean_log_probabilities([x["logits"] for x in outputs])
        return {
            **outputs[0],
            "logits": logits,
            "predictions": np.argmax(logits, -1),
            "confidences": np.exp(np.max(logits, -1)),
            "loss": mean(outputs, "loss"),
        }

    def is_constant(self, outputs: Outputs) -> bool:
        scored = outputs["labels_mask"] > 0
        return len(np.unique(outputs["predictions"][scored])) == 1

    def labels_of(self, example: TaggedSentence) -> tuple[str, ...]:
        return example.tags

    def tags(
        self, outputs: Outputs, examples: Sequence[TaggedSentence]
    ) -> tuple[list[list[str]], list[list[float]]]:
        """Merges the windows of each sentence."""
        tags = [["O"] * len(example.words) for example in examples]
        confidences = [[0.0] * len(example.words) for example in examples]
        rows, places = np.nonzero(outputs["labels_mask"])
        for row, place in zip(rows.tolist(), places.tolist(), strict=True):
            eid = int(outputs["eid"][row])
            word = int(outputs["first_word"][row]) + place
            tags[eid][word] = self.label_list[
                outputs["predictions"][row, place]
            ]
            confidences[eid][word] = float(outputs["confidences"][row, place])
        return tags, confidences
