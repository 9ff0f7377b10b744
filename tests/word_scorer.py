"""A fake scorer that looks up the scores of words in a table."""

import math
import types

from electra_tf.analysis.scores import TextScores, TokenScore
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import Vocabulary


class WordScorer:
    """Scores words; "+" splits a word into two tokens, "~" has no token."""

    max_seq_length = 64
    temperature = 1.0
    step = 70

    def __init__(self, probabilities=(), **log_probs):
        self.log_probs = log_probs
        self.probabilities = dict(probabilities)
        self.scores = tuple(log_probs) or ("discriminator",)
        tokens = SPECIAL_TOKENS + tuple(sorted(self.probabilities))
        self.networks = types.SimpleNamespace(
            vocabulary=Vocabulary(tokens), generator="one"
        )

    def score(self, texts, *, scores=()):
        for text in texts:
            yield TextScores(text, tuple(self._tokens(text)))

    def _tokens(self, text):
        start = 0
        for part in text.replace("+", " ").split(" "):
            end = start + len(part)
            if part not in ("", "~"):
                p = self.probabilities.get(part, 0.1)
                values = {"discriminator": math.log(1 - p)}
                values |= {k: x[part] for k, x in self.log_probs.items()}
                yield TokenScore(part, start, end, start, end, p, values)
            start = end + 1
