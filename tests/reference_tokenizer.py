"""The original's tokenizer in pure Python.

Source: the original's model/tokenization.py.
"""

from electra_tf.model.tokenization import (
    MAX_INPUT_CHARS_PER_WORD,
    SUFFIX_INDICATOR,
    BasicTokenizer,
    Vocabulary,
)


class FullTokenizer:
    """Splits text into word pieces."""

    def __init__(
        self,
        vocab_file,
        do_lower_case=True,
        strip_accents=True,
    ):
        self.vocabulary = Vocabulary.from_file(vocab_file)
        self.basic_tokenizer = BasicTokenizer(do_lower_case, strip_accents)
        self.wordpiece_tokenizer = WordpieceTokenizer(self.vocabulary.ids)

    def tokenize(self, text):
        return [
            piece
            for word in self.basic_tokenizer.tokenize(text)
            for piece in self.wordpiece_tokenizer.tokenize(word)
        ]

    def convert_tokens_to_ids(self, tokens):
        return [self.vocabulary.ids[token] for token in tokens]


class WordpieceTokenizer:
    """Splits a word into the longest pieces, left to right."""

    def __init__(self, vocab):
        self.vocab = vocab

    def tokenize(self, word):
        if len(word) > MAX_INPUT_CHARS_PER_WORD:
            return ["[UNK]"]
        pieces = []
        start = 0
        while start < len(word):
            prefix = SUFFIX_INDICATOR if start else ""
            for end in range(len(word), start, -1):
                piece = prefix + word[start:end]
                if piece in self.vocab:
                    break
            else:
                return ["[UNK]"]
            pieces.append(piece)
            start = end
        return pieces
