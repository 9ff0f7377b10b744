"""From the outputs of a head to the spans that may be answers, and their text.

Letters in shapes: n rows, L tokens, K places in a beam, S spans.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import sentencepiece

from electra_tf.config.qa import QAConfig
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.scorer import Outputs
from electra_tf.model.sentencepiece_model import WORD_INDICATOR
from electra_tf.model.tokenization import SUFFIX_INDICATOR, BasicTokenizer

NO_ROW_NULL_SCORE = 1e6
"""The null score of a question that has no rows."""

_CACHE_SIZE = 2**18
_ROWS_AT_ONCE = 2048
_BEAM_NAMES = (
    "start_top_index",
    "end_top_index",
    "start_top_log_probs",
    "end_top_log_probs",
)


class Spans(NamedTuple):
    """Spans within the context, of all rows, in the order of the rows.

    Attributes:
      rows: int [S], the row of each.
      starts: int [S], its first token.
      ends: int [S], its last token.
      start_scores: float32 [S], of its first token.
      end_scores: float32 [S], of its last token.
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
    """Finds the spans that may be answers.

    They begin and end in the context, are not too long, and begin at a token
    that no other row shows with more context. Without a beam, the best starts
    and the best ends are combined.

    Args:
      outputs: of a head; see `QAScorer`.
      config: of question answering.
    """
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
    """Ranks the spans of each question, or of each row.

    Args:
      spans: of all rows.
      groups: int [n], what each row belongs to.

    Yields:
      A group, and the numbers of its spans, the best first; ties are in the
      order of their rows. Groups without spans are left out.
    """
    if not len(spans.rows):
        return
    of_spans = groups[spans.rows]
    order = np.lexsort((-spans.scores, of_spans))
    names, firsts = np.unique(of_spans[order], return_index=True)
    yield from zip(names.tolist(), np.split(order, firsts[1:]), strict=True)


def null_scores(outputs: Outputs) -> np.ndarray:
    """Returns the null score, of having no answer, of each row, float32 [n].

    It is the logit of the classifier, or else the score of the span at [CLS].

    Differs: with a beam and no classifier, the original adds zero to the
    start's logit.

    Args:
      outputs: of a head; see `QAScorer`.
    """
    for name in ("answerable_logit", "null_log_prob"):
        if name in outputs:
            return outputs[name]
    return outputs["start_logits"][:, 0] + outputs["end_logits"][:, 0]


class AnswerTexts:
    """Finds the original text of spans of tokens.

    Args:
      tokenizer: the tokenizer that made the tokens.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._vocabulary = tokenizer.vocabulary
        normalize = _normalizer(tokenizer)
        self._normalize = functools.lru_cache(_CACHE_SIZE)(normalize)

    def text(self, words: Sequence[str], token_ids: Sequence[int]) -> str:
        """Returns the text of a span.

        Args:
          words: of the context, from that of the span's first token to that
            of its last.
          token_ids: of the span.
        """
        tokens = [self._vocabulary.tokens[i] for i in token_ids]
        if self._vocabulary.sentencepiece:
            text = "".join(tokens).replace(WORD_INDICATOR, " ")
        else:
            text = " ".join(tokens).replace(f" {SUFFIX_INDICATOR}", "")
            text = text.replace(SUFFIX_INDICATOR, "")
        normal = " ".join(filter(None, map(self._normalize, words)))
        return get_final_text(" ".join(text.split()), " ".join(words), normal)


def get_final_text(pred_text: str, orig_text: str, tok_text: str) -> str:
    """Finds the characters of a text that became a part of its tokens.

    If the tokens do not have as many characters as the text, as some symbols
    vanish or become several, the whole text is returned.

    Example:
      >>> get_final_text("steve smith", "Steve Smith's", "steve smith ' s")
      'Steve Smith'

    Source: the original's finetune/qa/qa_metrics.py.

    Args:
      pred_text: a part of the tokens, separated by spaces.
      orig_text: the text.
      tok_text: all its tokens, separated by spaces.
    """
    start = tok_text.find(pred_text)
    places = [i for i, c in enumerate(orig_text) if c != " "]
    is_aligned = len(places) == len(tok_text) - tok_text.count(" ")
    if start < 0 or not pred_text or not is_aligned:
        return orig_text
    last = start + len(pred_text) - 1
    first_place = places[start - tok_text.count(" ", 0, start)]
    last_place = places[last - tok_text.count(" ", 0, last)]
    return orig_text[first_place : last_place + 1]


def _normalizer(tokenizer: TextTokenizer) -> Callable[[str], str]:
    """Returns the function from a word to the characters of its tokens."""
    model = tokenizer.vocabulary.sentencepiece
    if not model:
        basic = BasicTokenizer(tokenizer.do_lower_case, tokenizer.strip_accents)
        return lambda word: " ".join(basic.tokenize(word))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def normalize(word: str) -> str:
        text = processor.normalize(word).replace(WORD_INDICATOR, " ")
        return " ".join(text.split())

    return normalize
