"""Learning a WordPiece vocabulary from text.

Our tokenizer splits text into words, and tensorflow-text's learner finds the
pieces (top down: from all substrings of the words it drops those below a
count, in four rounds). Among equally frequent characters, words and pieces a
hash chooses, not the alphabet.
"""

import collections
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from tensorflow_text.tools.wordpiece_vocab import (
    wordpiece_tokenizer_learner_lib as learner,
)

from electra_tf.data.build_log import Log
from electra_tf.model.tokenization import (
    SPECIAL_TOKENS,
    SUFFIX_INDICATOR,
    BasicTokenizer,
)
from electra_tf.util.errors import UserError

MIN_COUNT = 2  # of a piece in the text; also of a rare character
MIN_CHARACTER_SHARE = 1e-6  # rarer characters may become [UNK]
MAX_RARE_CHARACTER_SHARE = 0.05  # share of the tokens for such characters
MAX_TOKEN_CHARACTERS = 30
MAX_DISTINCT_WORDS = 4_000_000  # in memory while counting
MAX_PIECE_CHARACTERS = 2**28  # of text whose words are counted at once
MIN_WORDS = 10_000  # to learn from; twice the vocabulary if that is more
MAX_SURPLUS = 0.5  # share of surplus pieces from the learner, to be cut off
NUM_ROUNDS = 4

Progress = Callable[[Callable[[], str]], None]  # see `console.Periodic`


def learn_vocabulary(
    lines: Iterable[str],
    *,
    vocab_size: int,
    do_lower_case: bool,
    strip_accents: bool,
    log: Log = lambda _: None,
    progress: Progress = lambda _: None,
) -> list[str]:
    """Learns a WordPiece vocabulary, which spells a text in few pieces."""
    tokenizer = BasicTokenizer(do_lower_case, strip_accents)
    counts = _count_words(lines, tokenizer)
    if not counts:
        raise UserError(
            "The corpus must have words to learn a vocabulary from. Received: "
            "none."
        )
    tokens = _alphabet_tokens(counts, vocab_size - len(SPECIAL_TOKENS))
    words = {
        w: n
        for w, n in counts.items()
        if tokens.issuperset(_character_tokens(w))
    }
    if not words:
        raise UserError(
            "`vocab_size` must leave room for the letters of at least one "
            f"word. Received: vocab_size={vocab_size}, of which "
            f"{len(SPECIAL_TOKENS)} are special tokens. Set a larger "
            "--vocab_size."
        )
    _log_left_out(counts, words, tokens, log)
    alphabet = sorted(tokens, key=lambda token: (len(token), token))
    tokens = [*SPECIAL_TOKENS, *alphabet]
    return tokens + _learn_pieces(words, vocab_size - len(tokens), progress)


def _log_left_out(
    counts: Mapping[str, int],
    words: Mapping[str, int],
    tokens: set[str],
    log: Log,
) -> None:
    """Logs how many characters have no token, and the share of [UNK]."""
    if num_left_out := len(set().union(*counts) - tokens):
        share = 1 - sum(words.values()) / sum(counts.values())
        log(
            f"Left out: {num_left_out:,} rare characters; {share:.3%} of the "
            "words become [UNK]."
        )


def _count_words(
    lines: Iterable[str], tokenizer: BasicTokenizer
) -> dict[str, int]:
    """Counts words; forgets the rarest where there are too many."""
    words: collections.Counter[str] = collections.Counter()
    floor = 0
    for chunks in _count_chunks(lines):
        for chunk, count in chunks.items():
            for word in tokenizer.tokenize(chunk):
                words[word] += count
        while len(words) > MAX_DISTINCT_WORDS:
            floor += 1
            words = collections.Counter(
                {word: n for word, n in words.items() if n > floor}
            )
    return words


def _count_chunks(
    lines: Iterable[str],
) -> Iterator[collections.Counter[str]]:
    """Yields the counts of chunks in consecutive pieces of the text."""
    chunks: collections.Counter[str] = collections.Counter()
    num_characters = 0
    for line in lines:
        chunks.update(line.split(" "))
        num_characters += len(line)
        if (
            len(chunks) > MAX_DISTINCT_WORDS
            or num_characters > MAX_PIECE_CHARACTERS
        ):
            yield chunks
            chunks, num_characters = collections.Counter(), 0
    yield chunks


def _character_tokens(word: str) -> list[str]:
    """Returns a word's characters as tokens."""
    return [word[0], *(SUFFIX_INDICATOR + c for c in word[1:])]


def _alphabet_tokens(counts: Mapping[str, int], max_tokens: int) -> set[str]:
    """Chooses the characters to keep, as the tokens that spell them."""
    characters: collections.Counter[str] = collections.Counter()
    inside: set[str] = set()
    for word, count in counts.items():
        inside.update(word[1:])
        for character in word:
            characters[character] += count
    least = MIN_CHARACTER_SHARE * characters.total()
    num_rare = round(MAX_RARE_CHARACTER_SHARE * max_tokens)
    tokens: set[str] = set()
    for character, count in _by_frequency(characters):
        forms = {character}
        if character in inside:
            forms.add(SUFFIX_INDICATOR + character)
        is_rare = count < least
        num_rare -= len(forms) * is_rare
        has_room = len(tokens) + len(forms) <= max_tokens
        if not has_room or is_rare and (num_rare < 0 or count < MIN_COUNT):
            break
        tokens |= forms
    return tokens


def _learn_pieces(
    counts: Mapping[str, int], num_pieces: int, progress: Progress
) -> list[str]:
    """Returns at most `num_pieces` pieces of several characters, by
    frequency."""
    words = [
        (word, count)
        for word, count in _by_frequency(counts)
        if len(word) <= MAX_TOKEN_CHARACTERS
    ][: max(MIN_WORDS, 2 * num_pieces)]
    if num_pieces <= 0 or not words:
        return []
    least = max(MIN_COUNT, words[min(num_pieces, len(words) - 1)][1])
    low, high = least, 3 * least
    found: list[str] = []
    while low <= high:
        count = (low + high) // 2
        pieces = _pieces_above(words, count)
        progress(
            partial(
                "Learning: {:,} pieces are used {:,} times or more".format,
                len(pieces),
                count,
            )
        )
        if len(pieces) >= num_pieces or len(pieces) > len(found):
            found = pieces
        if len(pieces) < num_pieces:
            high = count - 1
        elif len(pieces) > num_pieces * (1 + MAX_SURPLUS):
            low = count + 1
        else:
            break
    return _cut(found, num_pieces)


def _pieces_above(words: list[tuple[str, int]], count: int) -> list[str]:
    """Returns the pieces of at least a count, most frequent first, then A-Z."""
    parameters = learner.Params(
        upper_thresh=None,
        lower_thresh=None,
        num_iterations=NUM_ROUNDS,
        max_input_tokens=-1,
        max_token_length=MAX_TOKEN_CHARACTERS,
        max_unique_chars=None,
        vocab_size=None,
        slack_ratio=None,
        include_joiner_token=True,
        joiner=SUFFIX_INDICATOR,
        reserved_tokens=[],
    )
    pieces = learner.learn_with_thresh(words, count, parameters)
    return [p for p in pieces if len(p.removeprefix(SUFFIX_INDICATOR)) > 1]


def _cut(pieces: list[str], number: int) -> list[str]:
    """Returns the first pieces; a hash chooses among those of equal count."""
    if number >= len(pieces):
        return pieces
    start, end = number, number + 1
    while start and pieces[start - 1] < pieces[start]:
        start -= 1
    while end < len(pieces) and pieces[end - 1] < pieces[end]:
        end += 1
    chosen = sorted(pieces[start:end], key=_hash)[: number - start]
    return pieces[:start] + sorted(chosen)


def _by_frequency(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Returns items and counts, the most frequent first."""
    return sorted(counts.items(), key=lambda x: (-x[1], _hash(x[0])))


def _hash(text: str) -> bytes:
    """Returns a hash that orders texts in the same way in every run."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
