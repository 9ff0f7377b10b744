"""The original's tokenizer in pure Python.

Source: the original's model/tokenization.py.
"""

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
    words = BasicTokenizer(do_lower_case, strip_accents).tokenize(text)
    pieces = [x for word in words for x in word_pieces(word, vocabulary)]
    return [vocabulary.ids[piece] for piece in pieces]
