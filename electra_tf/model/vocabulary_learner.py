"""Learning a WordPiece vocabulary from text.

The pieces are found by tensorflow-text's learner (top down: all substrings of
the words, those below a count thrown out, for four rounds) in the words that
our tokenizer splits text into.
"""

import collections
import sys
from collections.abc import Iterable

from tensorflow_text.tools.wordpiece_vocab import (
    wordpiece_tokenizer_learner_lib as learner,
)

from electra_tf.model.tokenization import (
    SPECIAL_TOKENS,
    SUFFIX_INDICATOR,
    BasicTokenizer,
)
from electra_tf.util.errors import UserError

MIN_CHARACTER_SHARE = 1e-6  # rarer characters become [UNK]
MAX_TOKEN_CHARACTERS = 30
MAX_DISTINCT_WORDS = 4_000_000  # in memory while counting
MIN_WORDS = 10_000  # to learn from; twice the vocabulary if that is more
MAX_SURPLUS = 0.5  # of tokens that the learner may return, to be cut


def learn_vocabulary(
    lines: Iterable[str],
    *,
    vocab_size: int,
    do_lower_case: bool,
    strip_accents: bool,
) -> list[str]:
    """Learns the tokens that spell a text in few pieces.

    Args:
      lines: of text; read once and not kept.
      vocab_size: tokens to aim at. Never exceeded; a small text has fewer.
      do_lower_case: see `BasicTokenizer`.
      strip_accents: see `BasicTokenizer`.

    Returns:
      The special tokens; the characters, alone and inside of words; the other
      pieces, the most frequent first.

    Raises:
      UserError: if there are no words, or more characters than tokens.
    """
    tokenizer = BasicTokenizer(do_lower_case, strip_accents)
    counts = _count_words(lines, tokenizer)
    if not counts:
        raise UserError(
            "A vocabulary is learned from text. Received: a corpus without a "
            "word."
        )
    alphabet = _alphabet(counts)
    words = {w: n for w, n in counts.items() if alphabet.issuperset(w)}
    inside = {character for word in words for character in word[1:]}
    suffixes = [SUFFIX_INDICATOR + character for character in sorted(inside)]
    tokens = [*SPECIAL_TOKENS, *sorted(alphabet), *suffixes]
    if vocab_size < len(tokens):
        raise UserError(
            f"`vocab_size` must be at least {len(tokens)} for this corpus: the "
            "special tokens and its characters, alone and inside of words. "
            f"Received: vocab_size={vocab_size}."
        )
    pieces = _learn_pieces(words, vocab_size)
    return [*tokens, *pieces][:vocab_size]


def _count_words(
    lines: Iterable[str], tokenizer: BasicTokenizer
) -> dict[str, int]:
    """Counts words, tokenizing what stands between two spaces only once."""
    chunks: collections.Counter[str] = collections.Counter()
    floor = 0
    for line in lines:
        chunks.update(line.split(" "))
        while len(chunks) > MAX_DISTINCT_WORDS:
            floor += 1
            chunks = collections.Counter(
                {chunk: n for chunk, n in chunks.items() if n > floor}
            )
    words: collections.Counter[str] = collections.Counter()
    for chunk, count in chunks.items():
        for word in tokenizer.tokenize(chunk):
            words[word] += count
    return words


def _alphabet(counts: dict[str, int]) -> set[str]:
    """Returns the characters that are not rare."""
    characters: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    least = MIN_CHARACTER_SHARE * characters.total()
    return {character for character, n in characters.items() if n >= least}


def _learn_pieces(counts: dict[str, int], vocab_size: int) -> list[str]:
    """Returns pieces by frequency, about as many as asked for or more.

    The learner searches for the count a piece needs to be a token. Every word
    with that count becomes one, so that it is at least the count of the word
    at position `vocab_size`, and it is seldom above three times as much.
    """
    words = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    words = words[: max(MIN_WORDS, 2 * vocab_size)]
    least = words[min(vocab_size, len(words) - 1)][1]
    pieces = learner.learn(
        words,
        vocab_size=round(vocab_size * (1 + MAX_SURPLUS)),
        reserved_tokens=[],
        lower_thresh=least,
        upper_thresh=3 * least,
        max_token_length=MAX_TOKEN_CHARACTERS,
        max_unique_chars=sys.maxunicode,
        slack_ratio=MAX_SURPLUS / (1 + MAX_SURPLUS),
        joiner=SUFFIX_INDICATOR,
    )
    return [p for p in pieces if len(p.removeprefix(SUFFIX_INDICATOR)) > 1]
