"""The original's tokenizer in pure Python.

Source: the original's model/tokenization.py.
"""

import re

from electra_tf.model.tokenization import (
    MAX_INPUT_CHARS_PER_WORD,
    SUFFIX_INDICATOR,
    BasicTokenizer,
)


def word_pieces(word, vocabulary):
    """Splits a word into the longest pieces, left to right."""
    if len(word) > MAX_INPUT_CHARS_PER_WORD:
        return ["[UNK]"]
    pieces = []
    start = 0
    while start < len(word):
        prefix = SUFFIX_INDICATOR if start else ""
        for end in range(len(word), start, -1):
            piece = prefix + word[start:end]
            if piece in vocabulary.ids:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def tokenize(text, vocabulary, do_lower_case=True, strip_accents=True):
    """Returns the ids of the word pieces of a text."""
    basic, pieces = BasicTokenizer(do_lower_case, strip_accents), []
    added = sorted(vocabulary.added, key=len, reverse=True)
    known = {
        token.lower() if do_lower_case else token: token for token in added
    }
    pattern = "|".join(map(re.escape, added)) or "(?!)"
    flags = re.IGNORECASE if do_lower_case else 0
    for part in re.split(f"({pattern})", text, flags=flags):
        token = known.get(part.lower() if do_lower_case else part)
        words = [] if token else basic.tokenize(part)
        pieces += [x for word in words for x in word_pieces(word, vocabulary)]
        pieces += [token] if token else []
    return [vocabulary.ids[piece] for piece in pieces]
