"""Helpers of analysis tests: configurations, and a scorer of words."""

import json
import math
import types

from electra_tf.analysis.scores import TextScores, TokenScore
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import Vocabulary


def config(*test, **fields):
    """Returns an analysis configuration; `test` defaults to the file "t"."""
    test = tuple(map(str, test)) or ("t",)
    defaults = {"what": "rerank", "model": "m", "num_resamples": 100}
    return AnalysisConfig(test=test, **{**defaults, **fields})


def draw(report):
    """Formats the tables of a report, and draws its plots."""
    for table in report.tables:
        assert len({len(row) for row in table.cells()}) == 1
    for plot in report.plots.values():
        assert plot.png().startswith(b"\x89PNG")


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


class WordScorer:
    """Scores words; "+" splits a word into two tokens, "~" has no token."""

    temperature = 1.0
    step = 70

    def __init__(self, probabilities=(), **log_probs):
        self.log_probs = log_probs
        self.probabilities = dict(probabilities)
        self.scores = tuple(log_probs) or ("discriminator",)
        vocabulary = Vocabulary(SPECIAL_TOKENS + tuple(self.probabilities))
        self.networks = types.SimpleNamespace(
            vocabulary=vocabulary, generator="one"
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
