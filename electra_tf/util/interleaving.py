"""Interleaving of several sources: which one gives the batch of each update.

The sources divide [0, 1) by their shares. Update g takes the source into whose
interval the number

    (offset + g * 0.618...) mod 1

falls, with the golden ratio and an offset made from the seed. Of all such
sequences this one is spread most evenly: after any number of updates each
source has had its share to within a few updates, in an irregular order, and
none waits for long. The schedule is a function of seed and position, so that a
run may start anywhere in it.
"""

import numpy as np

UNIT = 2**32
"""The integer that stands for a share of 1."""

_GOLDEN = 2_654_435_769  # 0.618... * UNIT


def interleave_schedule(
    ends: np.ndarray, num_updates: int, seed: int
) -> np.ndarray:
    """Returns the source of each update."""
    if ends.shape[-1] == 1:
        return np.broadcast_to(np.int32(0), num_updates)  # takes no memory
    offset = int(np.random.SeedSequence(seed).generate_state(1)[0])
    numbers = (offset + np.arange(num_updates) * _GOLDEN) % UNIT
    is_past = numbers[:, np.newaxis] >= ends[..., :-1]
    return is_past.sum(-1, dtype=np.int32)
