"""Interleaves sources of batches by their shares, without randomness.

Update g takes its batch from the source into whose share of [0, 1) the number

    (offset + g * 0.618...) mod 1

falls, with the golden ratio and an offset made from the seed. Of all such
sequences this one is spread most evenly: after any number of updates each
source has had its share of them to within a few, in an irregular order, and
none waits for long. The schedule is a function of seed and position: a run may
start at any.
"""

import numpy as np

UNIT = 2**32
"""What stands for 1 in shares."""

_GOLDEN = 2_654_435_769  # 0.618... * UNIT


def interleave_schedule(
    ends: np.ndarray, num_turns: int, seed: int
) -> np.ndarray:
    """Returns the source of each update.

    Args:
      ends: int64 [k] or, if shares change, [num_turns, k]: where the shares of
        the k sources end in [0, UNIT); the last ends at `UNIT`.
      num_turns: how many turns there are.
      seed: of the offset.

    Returns:
      int32 [num_turns], numbers of sources.
    """
    offset = int(np.random.SeedSequence(seed).generate_state(1)[0])
    numbers = (offset + np.arange(num_turns) * _GOLDEN) % UNIT
    is_past = numbers[:, np.newaxis] >= ends[..., :-1]
    return is_past.sum(-1, dtype=np.int32)
