"""How far the scoring of many texts is."""

import time
from collections.abc import Iterable, Iterator

from electra_tf.analysis.scoring.scores import TextScores
from electra_tf.util import console


def reported(scores: Iterable[TextScores], count: int) -> Iterator[TextScores]:
    """Yields the scores of texts, and says now and then how many are done.

    Args:
      scores: of each text.
      count: of the texts.
    """
    periodic, start = console.Periodic(console.say), time.monotonic()
    for done, one in enumerate(scores, 1):
        yield one
        periodic(lambda done=done: _line(done, count, start))


def _line(done: int, count: int, start: float) -> str:
    rate = done / (time.monotonic() - start)
    return f"Scored {done:,} of {count:,} texts, {rate:,.0f} a second"
