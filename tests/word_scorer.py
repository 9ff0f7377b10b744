"""A fake scorer that looks up the scores of words in a table."""

import math
import types

from electra_tf.analysis.scores import Repair, TextScores, TokenScore
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import Vocabulary


class WordScorer:
    """Scores words; "+" splits a word into two tokens, "~" has no token."""

    max_seq_length = 64
    temperature = 1.0
    step = 70

    def __init__(
        self,
        probabilities=(),
        repairs=(),
        scores=("discriminator",),
        **log_probs,
    ):
        self.log_probs = log_probs
        self.probabilities = dict(probabilities)
        self.repairs = dict(repairs)
        self.scores = tuple(log_probs or scores)
        tokens = {*self.probabilities, *self.repairs}
        tokens |= {word for words in self.repairs.values() for word in words}
        self.vocabulary = Vocabulary(SPECIAL_TOKENS + tuple(sorted(tokens)))
        self.networks = types.SimpleNamespace(
            vocabulary=self.vocabulary, generator=None
        )
        self.asked = []

    def score(self, texts, *, scores=(), num_repairs=0):
        for text in texts:
            self.asked.append((text, tuple(scores), num_repairs))
            yield TextScores(text, tuple(self._tokens(text, num_repairs)))

    def _tokens(self, text, num_repairs):
        start = 0
        for part in text.replace("+", " ").split(" "):
            p = self.probabilities.get(part, 0.1)
            end = start + len(part)
            repairs = [Repair(x, 0.1) for x in self.repairs.get(part, ())]
            log_probs = {
                score: self.log_probs[score][part]
                if self.log_probs
                else math.log(1 - p)
                for score in self.scores
                if part
            }
            if part not in ("", "~"):
                yield TokenScore(
                    part,
                    start,
                    end,
                    len(text[:start].encode()),
                    len(text[:end].encode()),
                    p if "discriminator" in self.scores else None,
                    log_probs,
                    tuple(repairs[:num_repairs]),
                )
            start = end + 1
