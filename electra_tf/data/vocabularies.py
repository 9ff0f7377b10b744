"""Learns and opens the vocabulary that the configuration of a corpus names.

tensorflow-text's learner finds word pieces in the words of our own tokenizer.
Among equally frequent characters, words and pieces a hash chooses, not the
alphabet.
"""

import collections
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping

import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab import (
    wordpiece_tokenizer_learner_lib as learner,
)

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, selection
from electra_tf.model import sentencepiece_model
from electra_tf.model.tokenization import (
    SPECIAL_TOKENS,
    SUFFIX_INDICATOR,
    BasicTokenizer,
    Vocabulary,
)
from electra_tf.util import console, files
from electra_tf.util.errors import UserError

MIN_COUNT = 2  # of a piece in the text; also of a rare character
MIN_CHARACTER_SHARE = 1e-6  # rarer characters may become [UNK]
MAX_RARE_CHARACTER_SHARE = 0.05  # share of the tokens for such characters
MAX_TOKEN_CHARACTERS = 30
MIN_WORDS = 10_000  # to learn from; twice the vocabulary if that is more
MAX_SURPLUS = 0.5  # share of surplus pieces from the learner, to be cut off
NUM_ROUNDS = 4
SAMPLE_BYTES = 2**27  # of text from which a vocabulary is learned


def open_vocabulary(config: CorpusConfig, path: str) -> Vocabulary:
    """Opens a vocabulary and checks it against a configuration."""
    vocabulary = Vocabulary.from_file(path)
    _check(vocabulary, config, path)
    return vocabulary


def _check(vocabulary: Vocabulary, config: CorpusConfig, path: str) -> None:
    if config.vocab_size and vocabulary.size > config.vocab_size:
        raise UserError(
            f"{path} has {vocabulary.size} tokens, more than "
            f"vocab_size={config.vocab_size}."
        )
    if vocabulary.sentencepiece:
        strip_accents = config.do_lower_case and config.strip_accents
        asked = (config.do_lower_case, strip_accents)
        found = sentencepiece_model.normalization(vocabulary.sentencepiece)
        if found != asked:
            raise UserError(
                f"{path} normalizes with (do_lower_case, strip_accents) = "
                f"{found}, the flags ask for {asked}."
            )


def copy_vocabulary(
    vocabulary: Vocabulary, config: CorpusConfig, vocab_file: str
) -> None:
    """Writes the vocabulary of `init_checkpoint` for a run on its weights."""
    origin = "The vocabulary of --init_checkpoint"
    if vocabulary.kind != config.tokenizer:
        raise UserError(
            f"{origin} is {vocabulary.kind}, not tokenizer={config.tokenizer}."
        )
    _check(vocabulary, config, origin)
    tf.io.gfile.makedirs(os.path.dirname(vocab_file) or ".")
    vocabulary.write(vocab_file)
    console.say(f"Copied the vocabulary of --init_checkpoint to {vocab_file}")


def build_vocabulary(
    config: CorpusConfig, vocab_file: str, leave_out: Iterable[str] = ()
) -> Vocabulary:
    """Learns the vocabulary of a corpus, or a sample of it, and writes it."""
    if tf.io.gfile.exists(vocab_file):
        raise UserError(f"vocab_file={vocab_file!r} exists already.")
    sources = corpus.expand(config.corpus, leave_out=leave_out)
    size = config.target_vocab_size
    console.say(f"Learning a {config.tokenizer} vocabulary of {size:,} tokens")
    log_sometimes = console.Periodic(console.say)

    def lines() -> Iterator[str]:
        counts = corpus.Counts()
        num_bytes = sum(source.num_text_bytes for source in sources)
        share = SAMPLE_BYTES / max(num_bytes, SAMPLE_BYTES)
        for document in corpus.read_documents(sources, config, counts):
            log_sometimes(lambda: f"{counts['text_bytes'] / 1e6:,.0f} MB read")
            if selection.document_key(document, seed=0) < share * 2**128:
                yield from document

    is_sentencepiece = config.tokenizer == "sentencepiece"
    learn = sentencepiece_model.learn if is_sentencepiece else learn_vocabulary
    content = learn(
        lines(),
        vocab_size=size,
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
    )
    if not is_sentencepiece:
        content = "".join(f"{token}\n" for token in content).encode()
    tf.io.gfile.makedirs(os.path.dirname(vocab_file) or ".")
    files.atomic_write_bytes(vocab_file, content)
    vocabulary = Vocabulary.from_file(vocab_file)
    console.say(f"Learned {vocabulary.size:,} tokens: {vocab_file}")
    return vocabulary


def learn_vocabulary(
    lines: Iterable[str],
    *,
    vocab_size: int,
    do_lower_case: bool,
    strip_accents: bool,
) -> list[str]:
    """Learns a WordPiece vocabulary, which spells a text in few pieces."""
    tokenizer = BasicTokenizer(do_lower_case, strip_accents)
    chunks: collections.Counter[str] = collections.Counter()
    for line in lines:
        chunks.update(line.split(" "))  # so that each is tokenized once
    counts: collections.Counter[str] = collections.Counter()
    for chunk, count in chunks.items():
        for word in tokenizer.tokenize(chunk):
            counts[word] += count
    alphabet = _alphabet(counts, vocab_size - len(SPECIAL_TOKENS))
    words = {
        word: count
        for word, count in counts.items()
        if word[0] in alphabet
        and alphabet.issuperset(SUFFIX_INDICATOR + c for c in word[1:])
    }
    if not words:
        raise UserError(
            f"vocab_size={vocab_size} leaves no room for the letters of one of "
            f"the {len(counts)} words."
        )
    alphabet = sorted(alphabet, key=lambda token: (len(token), token))
    tokens = [*SPECIAL_TOKENS, *alphabet]
    return tokens + _learn_pieces(words, vocab_size - len(tokens))


def _alphabet(counts: Mapping[str, int], max_tokens: int) -> set[str]:
    """Chooses the characters to keep, as the tokens that spell them."""
    characters: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    inside = {character for word in counts for character in word[1:]}
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


def _learn_pieces(counts: Mapping[str, int], num_pieces: int) -> list[str]:
    """Returns at most `num_pieces` pieces of several characters."""
    words = [
        (word, count)
        for word, count in _by_frequency(counts)
        if len(word) <= MAX_TOKEN_CHARACTERS
    ][: max(MIN_WORDS, 2 * num_pieces)]
    if num_pieces <= 0 or not words:
        return []
    low = max(MIN_COUNT, words[min(num_pieces, len(words) - 1)][1])
    high = 3 * low
    best: list[str] = []
    while low <= high:  # bisects the least count of a piece
        count = (low + high) // 2
        pieces = _pieces_above(words, count)
        if len(pieces) >= num_pieces or len(pieces) > len(best):
            best = pieces
        if len(pieces) < num_pieces:
            high = count - 1
        elif len(pieces) > num_pieces * (1 + MAX_SURPLUS):
            low = count + 1
        else:
            break
    return _cut(best, num_pieces)


def _pieces_above(words: list[tuple[str, int]], count: int) -> list[str]:
    """Returns the pieces of at least a count, most frequent first, then A-Z."""
    parameters = learner.Params(
        upper_thresh=None,
        lower_thresh=None,
        num_iterations=NUM_ROUNDS,
        max_input_tokens=-1,
        max_unique_chars=None,
        vocab_size=None,
        slack_ratio=None,
        max_token_length=MAX_TOKEN_CHARACTERS,
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
    return sorted(counts.items(), key=lambda x: (-x[1], _hash(x[0])))


def _hash(text: str) -> bytes:
    """Returns a hash that orders texts in the same way in every run."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
