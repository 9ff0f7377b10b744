"""Two prompt templates, and a fake scorer of their label words."""

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
    """Prefers "good" to "bad" by 1.5; "very" adds 2, "plot" subtracts 2.

    Scores of the second template, which starts with "the", are halved.
    """

    def __init__(self):
        self.reader = TextReader(tiny_networks.VOCABULARY, max_seq_length=10)

    def score(self, rows):
        return np.array(list(map(self._score, rows)))

    def _score(self, row):
        tokens = [tiny_networks.VOCABULARY.tokens[i] for i in row.ids]
        assert row.positions == (tokens.index(self._word(tokens)),)
        preference = 1.5 + 2 * ("very" in tokens) - 2 * ("plot" in tokens)
        sign = 0.5 if self._word(tokens) == "good" else -0.5
        return sign * preference * (0.5 if tokens[1] == "the" else 1)

    def _word(self, tokens):
        return "good" if "good" in tokens else "bad"
