"""Metrics of tagging: accuracy of words, and F1 of whole spans.

Differs: the original adds each loss twice, and does not score words that it
cut off.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from electra_tf.finetune.examples import TaggedSentence
from electra_tf.finetune.scorer import (
    Outputs,
    Scorer,
    mean,
    mean_log_probabilities,
)
from electra_tf.finetune.tagging.spans import get_span_labels, in_encoding


class AccuracyScorer(Scorer):
    """The accuracy over words."""

    main_metric: ClassVar[str] = "accuracy"
    ensemble_outputs: ClassVar[tuple[str, ...]] = ("logits",)

    def __init__(self, label_list: Sequence[str]) -> None:
        self.label_list = tuple(label_list)

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
        """Computes the metrics, in percent."""
        hits = [a == b for x, y in pairs for a, b in zip(x, y, strict=True)]
        return {"accuracy": 100 * sum(hits) / max(1, len(hits))}

    def answers(
        self, outputs: Outputs, examples: Sequence[TaggedSentence]
    ) -> list[dict[str, Any]]:
        predicted, confidences = self.tags(outputs, examples)
        return [
            {
                "eid": example.eid,
                "words": example.words,
                "label": example.tags,
                "prediction": tags,
                "confidences": tag_confidences,
            }
            for example, tags, tag_confidences in zip(
                examples, predicted, confidences, strict=True
            )
        ]

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


class EntityScorer(AccuracyScorer):
    """Precision, recall and F1 of spans."""

    def __init__(
        self,
        label_list: Sequence[str],
        *,
        original_spans: bool = False,
        encoding: str = "BIOES",
        main_metric: str = "f1",
    ) -> None:
        super().__init__(label_list)
        self.main_metric = main_metric
        self.original_spans = original_spans
        self.encoding = encoding

    def answers(
        self, outputs: Outputs, examples: Sequence[TaggedSentence]
    ) -> list[dict[str, Any]]:
        return [
            {
                **answer,
                "label": tuple(self._in_answer_encoding(answer["label"])),
                "prediction": self._in_answer_encoding(answer["prediction"]),
            }
            for answer in super().answers(outputs, examples)
        ]

    def _in_answer_encoding(self, tags: Sequence[str]) -> list[str]:
        """Returns the tags of a sentence in the encoding of answers."""
        return in_encoding(tags, self.encoding, original=self.original_spans)

    def metrics(
        self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
    ) -> dict[str, float]:
        right = predicted = hits = 0
        for tags, predicted_tags in pairs:
            golden = get_span_labels(tags, original=self.original_spans)
            found = get_span_labels(
                predicted_tags, original=self.original_spans
            )
            right += len(golden)
            predicted += len(found)
            hits += len({*golden} & {*found})
        precision = hits / max(1, predicted)
        recall = hits / max(1, right)
        f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
        return {
            "f1": 100 * f1,
            "precision": 100 * precision,
            "recall": 100 * recall,
            **super().metrics(pairs),
        }
