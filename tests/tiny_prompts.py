"""Two templates, and a scorer whose scores of their label words are known."""

import numpy as np
import tiny_networks

from electra_tf.model.text_reader import TextReader

TEMPLATES = """\
template: {text} {label}
template: the {label} {text}
label n: bad
label p: good
"""


class FakeScorer:
    """Likes "good" by 1.5, and by 2 more or less beside "very" or "plot".

    Of the second template, which begins with "the", half as much.
    """

    def __init__(self):
        self.reader = TextReader(tiny_networks.VOCABULARY, max_seq_length=10)

    def score(self, rows):
        return np.array(list(map(self._score, rows)))

    def _score(self, row):
        tokens = [tiny_networks.VOCABULARY.tokens[i] for i in row.ids]
        assert row.positions == (tokens.index(self._word(tokens)),)
        liking = 1.5 + 2 * ("very" in tokens) - 2 * ("plot" in tokens)
        sign = 0.5 if self._word(tokens) == "good" else -0.5
        return sign * liking * (0.5 if tokens[1] == "the" else 1)

    def _word(self, tokens):
        return "good" if "good" in tokens else "bad"
