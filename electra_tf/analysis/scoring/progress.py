"""Scores many texts, with progress messages."""

import time
from collections.abc import Iterator, Sequence

from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.analysis.scoring.scores import TextScores
from electra_tf.util import console


def scored(
    scorer: Scorer,
    texts: Sequence[str],
    scores: Sequence[str],
    *,
    num_repairs: int = 0,
) -> Iterator[TextScores]:
    """Yields the scores of each text, and prints the progress periodically.

    Args:
      scorer: of the model.
      texts: any number of them.
      scores: names of scores.
      num_repairs: number of repairs for each token.
    """
    periodic, start = console.Periodic(console.say), time.monotonic()
    found = scorer.score(texts, scores=scores, num_repairs=num_repairs)
    for done, one in enumerate(found, 1):
        yield one
        periodic(lambda done=done: _line(done, len(texts), start))


def _line(done: int, count: int, start: float) -> str:
    rate = done / (time.monotonic() - start)
    return f"Scored {done:,} of {count:,} texts, {rate:,.0f} a second"
