"""From a span of tokens to what stands there in the context."""

import functools
from collections.abc import Callable, Sequence

import sentencepiece

from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.model.sentencepiece_model import WORD_INDICATOR
from electra_tf.model.tokenization import SUFFIX_INDICATOR, BasicTokenizer

_WORDS_KEPT = 2**18


class AnswerTexts:
    """Reads spans of tokens in the original text.

    Args:
      tokenizer: that the tokens are from.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._vocabulary = tokenizer.vocabulary
        normalize = _normalizer(tokenizer)
        self._normalize = functools.lru_cache(_WORDS_KEPT)(normalize)

    def text(self, words: Sequence[str], token_ids: Sequence[int]) -> str:
        """Returns the text of a span.

        Args:
          words: of the context, from the one with the first token of the span
            to that with the last.
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

    Where the tokens have not as many characters as the text, as some symbols
    vanish or become several, all of the text is taken.

    Example:
      >>> get_final_text("steve smith", "Steve Smith's", "steve smith ' s")
      'Steve Smith'

    Source: the original's finetune/qa/qa_metrics.py.

    Args:
      pred_text: a part of the tokens, a space between them.
      orig_text: the text.
      tok_text: all its tokens, a space between them.
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
    """Returns what makes a word its tokens' characters."""
    model = tokenizer.vocabulary.sentencepiece
    if not model:
        basic = BasicTokenizer(tokenizer.do_lower_case, tokenizer.strip_accents)
        return lambda word: " ".join(basic.tokenize(word))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def normalize(word: str) -> str:
        text = processor.normalize(word).replace(WORD_INDICATOR, " ")
        return " ".join(text.split())

    return normalize
