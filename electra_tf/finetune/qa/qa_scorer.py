"""Scorers of question answering: best spans, official figures, ensembles.

Differs: the original computes the n best answers and discards them, and
answers "empty" if no span may be an answer; here that is the empty text.

Letters in shapes: n rows, L tokens, K places in a beam, M models.
"""

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.examples import QAExample
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa import qa_metrics
from electra_tf.finetune.qa.qa_heads import BEAM, find_spans, null_scores
from electra_tf.finetune.qa.token_borders import WordTokens, tokens_of_words
from electra_tf.finetune.scorer import Outputs, Scorer, log_softmax, mean

_DEGENERATE_RANGE = 1e-3  # of logits
_NO_ROW_NULL_SCORE = 1e6  # of a question without rows
_ROWS_AT_ONCE = 2048
_SPAN_COLUMNS = (
    "word_numbers",
    "is_max_context",
    "start_logits",
    "end_logits",
    *BEAM,
)
_AVERAGED_OUTPUTS = ("start_logits", "end_logits", "answerable_logit", "loss")


class CandidateAnswer(NamedTuple):
    """A candidate answer."""

    text: str
    start_score: float
    end_score: float


class PredictedAnswer(NamedTuple):
    """The predicted answer to a question."""

    candidates: Sequence[CandidateAnswer]
    null_odds: float | None

    @property
    def text(self) -> str:
        """The text of the best candidate; empty if there is none."""
        return self.candidates[0].text if self.candidates else ""


class QAScorer(Scorer):
    """Exact match and F1, as in SQuAD 1.1 and MRQA."""

    def __init__(
        self,
        config: QAConfig,
        tokenizer: TextTokenizer,
        *,
        main_metric: str = "f1",
    ) -> None:
        self.config = config
        self.main_metric = main_metric
        self._tokenizer = tokenizer

    def score(
        self, outputs: Outputs, examples: Sequence[QAExample]
    ) -> dict[str, float]:
        predicted = self.predicted_answers(outputs, examples, 1)
        golden = [example.answers for example in examples]
        metrics = self.metrics(golden, predicted)
        loss = float(np.mean(outputs["loss"]))
        return {**{k: float(v) for k, v in metrics.items()}, "loss": loss}

    def metrics(
        self, golden: qa_metrics.Golden, predicted: Sequence[PredictedAnswer]
    ) -> dict[str, float | int]:
        """Computes the metrics, in percent."""
        return qa_metrics.squad_v1(golden, [x.text for x in predicted])

    def prediction(self, answer: PredictedAnswer) -> str:
        """Returns the answer."""
        return answer.text

    def answers(
        self, outputs: Outputs, examples: Sequence[QAExample]
    ) -> list[dict[str, Any]]:
        predicted = self.predicted_answers(
            outputs, examples, self.config.n_best_size
        )
        return [
            {
                "eid": example.eid,
                "qas_id": example.qas_id,
                "question": example.question,
                "label": example.answers,
                "is_impossible": example.is_impossible,
                "prediction": self.prediction(found),
                "null_odds": found.null_odds,
                "nbest": _with_probabilities(found.candidates),
            }
            for example, found in zip(examples, predicted, strict=True)
        ]

    def combine(self, outputs: Sequence[Outputs]) -> Outputs:
        """Averages over models: probabilities of spans in beams, other
        logits."""
        first = outputs[0]
        plain = {
            name: mean(outputs, name)
            for name in _AVERAGED_OUTPUTS
            if name in first
        }
        joined = {**first, **plain}
        if "null_log_prob" in first:
            scores = np.stack([x["null_log_prob"] for x in outputs])
            total = np.logaddexp.reduce(scores, 0)
            joined["null_log_prob"] = total - np.float32(np.log(len(outputs)))
        if "start_top_index" in first:
            joined.update(_combined_beams(outputs))
        return joined

    def is_constant(self, outputs: Outputs) -> bool:
        """Returns whether the best span is at the same place of all
        contexts."""
        spans = self.find_spans(outputs)
        order = _ranked(spans, np.arange(len(outputs["eid"])))
        best = [numbers[0] for _, numbers in order]
        rows, starts, ends = (x[best] for x in spans[:3])
        first = np.argmax(outputs["word_numbers"] > 0, 1)[rows]
        places = [starts - first, ends - first]
        logits = outputs.get("answerable_logit", np.zeros(1))
        is_same_place = np.unique(np.stack(places), axis=1).shape[1] <= 1
        return is_same_place and float(np.ptp(logits)) < _DEGENERATE_RANGE

    def labels_of(self, example: QAExample) -> tuple[Hashable, ...]:
        """Returns the answer's position if it was found, else its texts."""
        place = (example.first_word, example.last_word, example.answer_start)
        return (place if example.is_found else example.answers,)

    def predicted_answers(
        self, outputs: Outputs, examples: Sequence[QAExample], count: int
    ) -> list[PredictedAnswer]:
        """Finds the best answers to each question."""
        eids = np.array([example.eid for example in examples])
        numbers = np.searchsorted(eids, outputs["eid"])
        spans = self.find_spans(outputs)
        contexts = {x.context: x.words for x in examples}
        # Not an attribute, as threads may share a scorer.
        known = tokens_of_words(
            itertools.chain(*contexts.values()), self._tokenizer.in_graph
        )
        candidates: list[list[CandidateAnswer]] = [[] for _ in examples]
        for number, order in _ranked(spans, numbers):
            found: dict[str, CandidateAnswer] = {}
            for one in order:
                row, start, end = (x[one] for x in spans[:3])
                (first, last), places = (
                    outputs[name][row, [start, end]]
                    for name in ("word_numbers", "numbers_in_word")
                )
                text = span_text(
                    examples[number].words[first - 1 : last],
                    outputs["input_ids"][row, start : end + 1],
                    places,
                    known,
                    self._tokenizer.vocabulary.unk_id,
                )
                scores = (x[one].item() for x in spans[3:])
                found.setdefault(text, CandidateAnswer(text, *scores))
                if len(found) == count:
                    break
            candidates[number] = [*found.values()]
        odds = self.null_odds(outputs, numbers, candidates)
        return [*map(PredictedAnswer, candidates, odds)]

    def find_spans(self, outputs: Outputs) -> list[np.ndarray]:
        """Returns row, start, end, and scores of both, of spans [S]."""
        parts = []
        for first in range(0, len(outputs["eid"]), _ROWS_AT_ONCE):
            block = {
                name: x[first : first + _ROWS_AT_ONCE]
                for name, x in outputs.items()
                if name in _SPAN_COLUMNS
            }
            in_context = block["word_numbers"] > 0
            can_start = in_context & (block["is_max_context"] > 0)
            starts, ends, start_scores, end_scores, is_valid = (
                np.asarray(x)
                for x in find_spans(block, in_context, can_start, self.config)
            )
            rows, i, j = np.nonzero(is_valid)
            part = (starts[rows, i], ends[rows, i, j])
            part += (start_scores[rows, i], end_scores[rows, i, j])
            parts.append((rows + first, *part))
        return [*map(np.concatenate, zip(*parts, strict=True))]

    def null_odds(
        self,
        outputs: Outputs,
        numbers: np.ndarray,
        candidates: Sequence[Sequence[CandidateAnswer]],
    ) -> list[float | None]:
        """Returns the odds that each question has no answer; here None."""
        del outputs, numbers
        return [None] * len(candidates)


class Squad2Scorer(QAScorer):
    """Exact match and F1, as in SQuAD 2.0, where there may be no answer."""

    tie_metrics: ClassVar[tuple[str, ...]] = ("span_f1",)

    def __init__(
        self,
        config: QAConfig,
        tokenizer: TextTokenizer,
        *,
        threshold: float,
        main_metric: str = "best_f1",
    ) -> None:
        super().__init__(config, tokenizer, main_metric=main_metric)
        self.threshold = threshold

    def metrics(
        self, golden: qa_metrics.Golden, predicted: Sequence[PredictedAnswer]
    ) -> dict[str, float | int]:
        texts = [x.text for x in predicted]
        odds = [x.null_odds for x in predicted]
        figures = qa_metrics.squad_v2(golden, texts, odds, self.threshold)
        found = {k: v for k, v in figures.items() if not k.endswith("total")}
        if with_answer := [i for i, right in enumerate(golden) if right]:
            found["span_f1"] = qa_metrics.squad_v1(
                [golden[i] for i in with_answer],
                [texts[i] for i in with_answer],
            )["f1"]
        return found

    def majority(
        self, train: Sequence[QAExample], examples: Sequence[QAExample]
    ) -> dict[str, float]:
        """Computes the metrics of answering no question."""
        del train
        golden = [example.answers for example in examples]
        no_answer = PredictedAnswer((), self.threshold + 1)
        figures = self.metrics(golden, [no_answer] * len(examples))
        return {
            name: float(value)
            for name, value in figures.items()
            if not name.endswith("_thresh")
        }

    def prediction(self, answer: PredictedAnswer) -> str:
        is_answered = answer.null_odds <= self.threshold
        return answer.text if is_answered else ""

    def null_odds(
        self,
        outputs: Outputs,
        numbers: np.ndarray,
        candidates: Sequence[Sequence[CandidateAnswer]],
    ) -> list[float | None]:
        """Returns the least null score among the rows of each question."""
        odds = np.full(len(candidates), _NO_ROW_NULL_SCORE)
        np.minimum.at(odds, numbers, null_scores(outputs))
        if "answerable_logit" not in outputs:
            best = [sum(found[0][1:]) if found else 0.0 for found in candidates]
            odds -= best
        return odds.tolist()


def span_text(
    words: Sequence[str],
    token_ids: Sequence[int],
    places: Sequence[int],
    known: Mapping[str, WordTokens],
    unknown_id: int,
) -> str:
    """Returns the text of a span; all words if it has no characters."""
    found = [known[word] for word in words]
    text = " ".join(words).encode()
    is_aligned = not sum(word.length_change for word in found)
    is_aligned &= unknown_id not in token_ids
    if is_aligned or any(word.is_unspaced for word in found):
        start, end = found[0].starts[places[0]], found[-1].ends[places[1]]
        end += len(text) - len(words[-1].encode())
        text = text[start:end] or text
    return text.decode(errors="ignore")


def _ranked(
    spans: Sequence[np.ndarray], groups: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Ranks the spans of each question, or of each row."""
    rows, _, _, start_scores, end_scores = spans
    if not len(rows):
        return
    of_spans = groups[rows]
    order = np.lexsort((-(start_scores + end_scores), of_spans))
    names, firsts = np.unique(of_spans[order], return_index=True)
    yield from zip(names.tolist(), np.split(order, firsts[1:]), strict=True)


def _with_probabilities(
    candidates: Sequence[CandidateAnswer],
) -> list[dict[str, Any]]:
    """Returns candidates as JSON values, with probabilities among them."""
    if not candidates:
        return []
    scores = np.array([x.start_score + x.end_score for x in candidates])
    probabilities = np.exp(log_softmax(scores)).tolist()
    return [
        {
            "text": candidate.text,
            "probability": probability,
            "start_logit": candidate.start_score,
            "end_logit": candidate.end_score,
        }
        for candidate, probability in zip(
            candidates, probabilities, strict=True
        )
    ]


def _combined_beams(outputs: Sequence[Outputs]) -> dict[str, np.ndarray]:
    """Concatenates beams, with the mean probabilities of their spans."""
    starts = _concatenated(outputs, "start_top_index")  # [n, M * K]
    ends = _concatenated(outputs, "end_top_index")  # [n, M * K, K]
    start_scores = _concatenated(outputs, "start_top_log_probs")
    scores = start_scores[..., None] + _concatenated(
        outputs, "end_top_log_probs"
    )
    length = 1 + int(max(starts.max(initial=0), ends.max(initial=0)))
    spans = starts[..., None].astype(np.int64) * length + ends
    of_starts = _log_mean(starts, start_scores, len(outputs))
    of_spans = _log_mean(spans, scores, len(outputs))
    return {
        "start_top_index": starts,
        "end_top_index": ends,
        "start_top_log_probs": of_starts,
        "end_top_log_probs": of_spans - of_starts[..., None],
    }


def _concatenated(outputs: Sequence[Outputs], name: str) -> np.ndarray:
    return np.concatenate([part[name] for part in outputs], 1)


def _log_mean(
    keys: np.ndarray, log_probs: np.ndarray, count: int
) -> np.ndarray:
    """Averages the probabilities of equal keys in a row, as logs [n, ...]."""
    n = len(keys)
    keys = keys.reshape(n, -1).astype(np.int64)
    rows = np.arange(n, dtype=np.int64)[:, None]
    flat = (rows * (1 + keys.max(initial=0)) + keys).ravel()
    _, groups = np.unique(flat, return_inverse=True)
    values = log_probs.astype(np.float64).ravel()
    sums = np.full(groups.max(initial=-1) + 1, -np.inf)
    np.logaddexp.at(sums, groups, values)
    means = sums[groups] - np.log(count)
    return means.reshape(log_probs.shape).astype(np.float32)
