"""From the outputs of a head to the spans that may be answers, and their text.

Letters in shapes: n rows, L tokens, K places in a beam, S spans.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa.token_borders import tokens_of_words
from electra_tf.finetune.scorer import Outputs

NO_ROW_NULL_SCORE = 1e6
"""The null score of a question that has no rows."""

_ROWS_AT_ONCE = 2048
_BEAM_NAMES = (
    "start_top_index",
    "end_top_index",
    "start_top_log_probs",
    "end_top_log_probs",
)


class Spans(NamedTuple):
    """Spans within the context, of all rows, in the order of the rows.

    Shapes: rows [S], starts [S], ends [S], start_scores [S], end_scores [S].
    """

    rows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    start_scores: np.ndarray
    end_scores: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """The score of each span, float32 [S]."""
        return self.start_scores + self.end_scores


def find_spans(outputs: Outputs, config: QAConfig) -> Spans:
    """Finds the spans that may be answers."""
    is_joint = "start_top_index" in outputs
    scores = _BEAM_NAMES if is_joint else ("start_logits", "end_logits")
    names = (*scores, "word_numbers", "is_max_context")
    parts = []
    for first in range(0, len(outputs["eid"]), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        block = {name: outputs[name][rows] for name in names}
        spans = _valid_spans(block, config)
        parts.append(spans._replace(rows=spans.rows + first))
    return Spans(*map(np.concatenate, zip(*parts, strict=True)))


def _valid_spans(block: Outputs, config: QAConfig) -> Spans:
    """Returns the spans of some rows that may be answers."""
    is_joint = "start_top_index" in block
    beam = block if is_joint else _best_positions(block, config.n_best_size)
    starts, ends, start_scores, end_scores = (
        beam[name] for name in _BEAM_NAMES
    )
    shape = ends.shape  # [n, K, K]
    starts = np.broadcast_to(starts[..., None], shape)
    start_scores = np.broadcast_to(start_scores[..., None], shape)
    in_context = block["word_numbers"] > 0
    can_start = in_context & (block["is_max_context"] > 0)
    lengths = ends - starts + 1
    is_valid = (
        _flags_at(can_start, starts)
        & _flags_at(in_context, ends)
        & (lengths >= 1)
        & (lengths <= config.max_answer_length)
    )
    rows, i, j = np.nonzero(is_valid)
    values = (starts, ends, start_scores, end_scores)
    return Spans(rows, *(value[rows, i, j] for value in values))


def _best_positions(block: Outputs, count: int) -> Mapping[str, np.ndarray]:
    """Returns the best starts and ends of each row, in the form of a beam.

    Differs: the original also takes places outside of the context, and drops
    them only afterwards.
    """
    in_context = block["word_numbers"] > 0
    beam = {}
    for side in ("start", "end"):
        logits = np.where(in_context, block[f"{side}_logits"], -np.inf)
        places = np.argsort(-logits, axis=1, kind="stable")[:, :count]
        beam[f"{side}_top_index"] = places
        beam[f"{side}_top_log_probs"] = np.take_along_axis(logits, places, 1)
    for name in ("end_top_index", "end_top_log_probs"):
        n, k = beam[name].shape
        beam[name] = np.broadcast_to(beam[name][:, None], (n, k, k))
    return beam


def _flags_at(flags: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Looks flags [n, L] up at places [n, K, K]."""
    n, length = flags.shape
    inside = places < length
    found = flags[np.arange(n)[:, None, None], np.where(inside, places, 0)]
    return found & inside


def rank_spans(
    spans: Spans, groups: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Ranks the spans of each question, or of each row."""
    if not len(spans.rows):
        return
    of_spans = groups[spans.rows]
    order = np.lexsort((-spans.scores, of_spans))
    names, firsts = np.unique(of_spans[order], return_index=True)
    yield from zip(names.tolist(), np.split(order, firsts[1:]), strict=True)


def null_scores(outputs: Outputs) -> np.ndarray:
    """Returns the null score, of having no answer, of each row, float32 [n].

    Differs: with a beam and no classifier, the original adds zero to the
    start's logit.
    """
    for name in ("answerable_logit", "null_log_prob"):
        if name in outputs:
            return outputs[name]
    return outputs["start_logits"][:, 0] + outputs["end_logits"][:, 0]


class AnswerTexts:
    """Finds the original text of spans of tokens, by their borders."""

    def __init__(self, tokenizer: TextTokenizer, words: Iterable[str]) -> None:
        self._unknown_id = tokenizer.vocabulary.unk_id
        self._known = tokens_of_words(words, tokenizer.in_graph)

    def text(
        self,
        words: Sequence[str],
        token_ids: Sequence[int],
        places: tuple[int, int],
    ) -> str:
        """Returns the text of a span; all words if it has no characters."""
        found = [self._known[word] for word in words]
        text = " ".join(words).encode()
        is_aligned = not sum(word.length_change for word in found)
        is_aligned &= self._unknown_id not in token_ids
        if is_aligned or any(word.is_unspaced for word in found):
            start = found[0].starts[places[0]]
            end = found[-1].ends[places[1]]
            end += len(text) - len(words[-1].encode())
            text = text[start:end] or text
        return text.decode(errors="ignore")
