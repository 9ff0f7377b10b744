"""The best spans of questions, and their official figures.

Differs: the original computes the n best answers and discards them, and
answers "empty" if no span may be an answer; here that is the empty text.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.preprocessing import QAExample, TextTokenizer
from electra_tf.finetune.qa.qa_heads import find_spans, null_scores
from electra_tf.finetune.qa.qa_rows import WordTokens, tokens_of_words
from electra_tf.finetune.scorer import (
    Answers,
    Metrics,
    Outputs,
    log_softmax,
    squad_v1,
    squad_v2,
)

_DEGENERATE_RANGE = 1e-3  # of logits
_NO_ROW_NULL_SCORE = 1e6  # of a question without rows
_ROWS_AT_ONCE = 2048

Examples = Sequence[QAExample]


class QAScorer:
    """Exact match and F1 of SQuAD 1.1 and MRQA; of SQuAD 2.0 by a threshold."""

    def __init__(
        self,
        config: QAConfig,
        tokenizer: TextTokenizer,
        threshold: float | None = None,
    ) -> None:
        self.config = config
        self.threshold = threshold
        self._tokenizer = tokenizer

    def score(self, outputs: Outputs, examples: Examples) -> Metrics:
        metrics = self.metrics(self.answers(outputs, examples, 1)).items()
        metrics = {k: v for k, v in metrics if not k.endswith("total")}
        return {**metrics, "loss": float(np.mean(outputs["loss"]))}

    def metrics(self, answers: Answers) -> Metrics:
        """Computes what the official scripts report, in percent."""
        golden = [x["label"] for x in answers]
        texts = [x["nbest"][0]["text"] if x["nbest"] else "" for x in answers]
        if self.threshold is None:
            return squad_v1(golden, texts)
        odds = [x["null_odds"] for x in answers]
        return squad_v2(golden, texts, odds, self.threshold)

    def answers(
        self, outputs: Outputs, examples: Examples, num_best: int | None = None
    ) -> Answers:
        """Returns the best spans of each question, and the odds of none."""
        num_best = num_best or self.config.n_best_size
        eids = np.array([example.eid for example in examples])
        numbers = np.searchsorted(eids, outputs["eid"])
        contexts = {x.context: x.words for x in examples}
        # Not an attribute, as threads may share a scorer.
        known = tokens_of_words(
            itertools.chain(*contexts.values()), self._tokenizer.in_graph
        )
        spans = self.find_spans(outputs)
        candidates: list[dict[str, list[float]]] = [{} for _ in examples]
        for number, order in _ranked(spans, numbers):
            for one in order:
                row, start, end, *scores = (x[one].item() for x in spans)
                first, last = outputs["word_numbers"][row, [start, end]]
                text = span_text(
                    examples[number].words[first - 1 : last],
                    outputs["input_ids"][row, start : end + 1],
                    outputs["numbers_in_word"][row, [start, end]],
                    known,
                    self._tokenizer.vocabulary.unk_id,
                )
                candidates[number].setdefault(text, scores)
                if len(candidates[number]) == num_best:
                    break
        null_odds = np.full(len(examples), _NO_ROW_NULL_SCORE)
        np.minimum.at(null_odds, numbers, null_scores(outputs))
        answers = []
        for example, best, odds in zip(
            examples, candidates, null_odds.tolist(), strict=True
        ):
            totals = [sum(scores) for scores in best.values()]
            if self.threshold is None:
                odds = None
            elif totals and "answerable_logit" not in outputs:
                odds -= totals[0]
            shares = np.exp(log_softmax(np.array(totals or [0.0]))).tolist()
            nbest = [
                {
                    "text": text,
                    "probability": share,
                    "start_logit": start,
                    "end_logit": end,
                }
                for (text, (start, end)), share in zip(
                    best.items(), shares, strict=False
                )
            ]
            is_answered = nbest and (odds is None or odds <= self.threshold)
            answers.append(
                {
                    "eid": example.eid,
                    "qas_id": example.qas_id,
                    "question": example.question,
                    "label": example.answers,
                    "is_impossible": example.is_impossible,
                    "prediction": nbest[0]["text"] if is_answered else "",
                    "null_odds": odds,
                    "nbest": nbest,
                }
            )
        return answers

    def is_constant(self, outputs: Outputs) -> bool:
        """Returns whether the best span is at one place of all contexts."""
        spans = self.find_spans(outputs)
        order = _ranked(spans, np.arange(len(outputs["eid"])))
        best = [numbers[0] for _, numbers in order]
        rows, starts, ends = (x[best] for x in spans[:3])
        first = np.argmax(outputs["word_numbers"] > 0, 1)[rows]
        places = np.unique(np.stack([starts - first, ends - first]), axis=1)
        logits = outputs.get("answerable_logit", np.zeros(1))
        is_one_place = places.shape[1] <= 1
        return is_one_place and float(np.ptp(logits)) < _DEGENERATE_RANGE

    def find_spans(self, outputs: Outputs) -> list[np.ndarray]:
        """Returns row, start, end, and scores of both, of spans [S]."""
        parts = []
        for first in range(0, len(outputs["eid"]), _ROWS_AT_ONCE):
            block = {
                name: x[first : first + _ROWS_AT_ONCE]
                for name, x in outputs.items()
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


def span_text(
    words: Sequence[str],
    token_ids: Sequence[int],
    places: Sequence[int],
    known: Mapping[str, WordTokens],
    unknown_id: int,
) -> str:
    """Returns the text of a span; all words if it has no characters.

    As in the original also if a token is unknown, or if words are longer or
    shorter when normalized; but not in a script without spaces.
    """
    tokens = [known[word] for word in words]
    text = " ".join(words).encode()
    is_aligned = not sum(word.length_change for word in tokens)
    is_aligned &= unknown_id not in token_ids
    if is_aligned or any(word.is_unspaced for word in tokens):
        start, end = tokens[0].starts[places[0]], tokens[-1].ends[places[1]]
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
