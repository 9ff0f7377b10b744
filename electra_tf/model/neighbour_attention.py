"""A start for small budgets: every head looks at one neighbour from step 0.

From the original's initial weights attention is uniform, and it takes
thousands of updates until heads find out that near words matter: the plateau
on which the generator knows word frequencies and the discriminator nothing.
Here head h starts at offset -1, +1, -2, +2, ... tokens, or where an encoder
reads in one direction at the nearest on that side; all else is as before and
everything is trained as before.

How: positions start as waves of evenly spaced frequencies, so that a shift by
n tokens is a rotation R(n) and different positions are nearly orthogonal. The
key kernel K stays random, the query kernel starts as R(n)' K, seen through
the projection P of the embeddings where there is one.

Differs: neither the paper nor the original has it; `attention_initializer`
switches it on.
"""

import numpy as np

_SCORE = 6.0  # of a head's neighbour at the start; other tokens have about 0


def position_table(num_positions: int, width: int) -> np.ndarray:
    """Makes positions that turn into each other by rotation.

    Args:
      num_positions: number of rows.
      width: number of columns, even.

    Returns:
      float64 [num_positions, width], root mean square 1.
    """
    angles = np.arange(num_positions)[:, np.newaxis] * _frequencies(width)
    return np.sqrt(2) * np.concatenate([np.sin(angles), np.cos(angles)], 1)


def query_and_key(
    key: np.ndarray,
    num_heads: int,
    projection: np.ndarray | None,
    *,
    direction: str = "both",
) -> tuple[np.ndarray, np.ndarray]:
    """Makes the kernels of heads that look at their neighbours.

    Args:
      key: float [H, H], random values for the key kernel.
      num_heads: A.
      projection: float [E, H], from embeddings to hidden states; None for
        none.
      direction: in which the encoder reads, see `modeling.BertModel`.

    Returns:
      Query and key kernel, float64 [H, H].
    """
    if projection is None:
        projection = np.eye(len(key))
    heads = [
        _head(kernel, offset(head, direction), projection)
        for head, kernel in enumerate(np.split(key, num_heads, axis=1))
    ]
    queries, keys = zip(*heads, strict=True)
    return np.concatenate(queries, 1), np.concatenate(keys, 1)


def offset(head: int, direction: str = "both") -> int:
    """Returns where a head looks at the start.

    Args:
      head: its number, from 0.
      direction: in which the encoder reads.

    Returns:
      Tokens from its own: -1, 1, -2, 2, ... or -1, -2, ... or 1, 2, ...
    """
    if direction != "both":
        return -head - 1 if direction == "left_to_right" else head + 1
    distance = head // 2 + 1
    return distance if head % 2 else -distance


def _head(
    kernel: np.ndarray, shift: int, projection: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns query and key kernel of one head, float64 [H, d]."""
    width = len(projection)
    turned = _rotation(width, shift).T @ projection @ kernel  # [E, d]
    query = np.linalg.pinv(projection) @ turned  # [H, d]
    # Word and position have equal shares in a normalized embedding.
    margin = max(8, abs(shift))
    positions = position_table(48 + 2 * margin, width) / np.sqrt(2)
    columns = np.arange(margin, margin + 48)
    queries = positions[columns] @ projection @ query
    keys = positions[columns + shift] @ projection @ kernel
    score = np.mean(np.sum(queries * keys, 1)) / np.sqrt(kernel.shape[1])
    scale = np.sqrt(_SCORE / score)
    return scale * query, scale * kernel


def _frequencies(width: int) -> np.ndarray:
    """Returns the frequencies of the waves, radians a token."""
    half = width // 2
    return (np.arange(half) + 0.5) * np.pi / half


def _rotation(width: int, shift: int) -> np.ndarray:
    """Returns R with position(i + shift) = R @ position(i)."""
    cosine = np.diag(np.cos(shift * _frequencies(width)))
    sine = np.diag(np.sin(shift * _frequencies(width)))
    return np.block([[cosine, sine], [-sine, cosine]])
