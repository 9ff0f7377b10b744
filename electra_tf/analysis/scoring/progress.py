"""Scores many texts, with progress messages."""

import time
from collections.abc import Iterator, Sequence

from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.analysis.scoring.scores import TextScores
from electra_tf.util import console


def score_texts(
    scorer: Scorer,
    texts: Sequence[str],
    scores: Sequence[str],
    *,
    num_repairs: int = 0,
) -> Iterator[TextScores]:
    """Yields the scores of each text, and prints the progress periodically."""
    periodic, start = console.Periodic(console.say), time.monotonic()
    found = scorer.score(texts, scores=scores, num_repairs=num_repairs)
    for num_done, text_scores in enumerate(found, 1):
        yield text_scores
        periodic(lambda num_done=num_done: _line(num_done, len(texts), start))


def _line(num_done: int, num_texts: int, start: float) -> str:
    rate = num_done / (time.monotonic() - start)
    return f"Scored {num_done:,} of {num_texts:,} texts, {rate:,.0f} a second"
