"""Initialization for small budgets: each head attends to one neighbour.

Position embeddings start as waves of nearly even frequencies, so that a shift
by n tokens is a rotation R(n). The key kernel K stays random, the query kernel
starts as R(n)' K, seen through the projection P of the embeddings if any. In
the first layer of a small encoder a head gives its neighbour .23 to .26 of its
attention, where uniform attention would be .008 and finding neighbours takes
thousands of updates.

Differs: neither the paper nor the original has it.
"""

import keras
import numpy as np

from electra_tf.config.model import BertConfig

_SCORE = 6.0  # mean score of a head's neighbour, without words; 0 for others


def frequencies(num_positions: int, width: int) -> np.ndarray:
    """Chooses the frequencies, so that no two positions are alike."""
    half = width // 2
    waves = np.arange(half)
    place = np.full(half, 0.5)
    if num_positions > width:
        golden = (np.sqrt(5) - 1) / 2
        place = (0.5 + golden * (waves * (waves + 1) // 2)) % 1
    return (waves + place) * np.pi / half


def position_table(num_positions: int, waves: np.ndarray) -> np.ndarray:
    """Makes positions, [n, 2 * waves], that are rotations of each other."""
    angles = np.arange(num_positions)[:, np.newaxis] * waves
    return np.sqrt(2) * np.concatenate([np.sin(angles), np.cos(angles)], 1)


def position_initializer(config: BertConfig) -> keras.Initializer | None:
    """Returns the initializer of the position table; None for the usual one."""
    if config.attention_initializer != "neighbours":
        return None
    num_positions = config.max_position_embeddings
    waves = frequencies(num_positions, config.embedding_size)
    table = position_table(num_positions, waves)
    return keras.initializers.Constant(config.initializer_range * table)


def rotation(waves: np.ndarray, shift: int) -> np.ndarray:
    """Returns R with position(i + shift) = R @ position(i)."""
    angles = shift * waves
    cosine, sine = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    return np.block([[cosine, sine], [-sine, cosine]])


def offset(head: int, direction: str = "both") -> int:
    """Returns the offset of the neighbour that a head attends to."""
    if direction != "both":
        return -head - 1 if direction == "left_to_right" else head + 1
    distance = head // 2 + 1
    return distance if head % 2 else -distance


def query_and_key(
    key: np.ndarray,
    num_heads: int,
    projection: np.ndarray | None,
    *,
    num_positions: int,
    direction: str = "both",
) -> tuple[np.ndarray, np.ndarray]:
    """Makes [H, H] kernels of heads that attend to a neighbour."""
    if projection is None:
        projection = np.eye(len(key))
    waves = frequencies(num_positions, len(projection))
    queries, keys = [], []
    for head, kernel in enumerate(np.split(key, num_heads, axis=1)):
        shift = offset(head, direction)
        turned = rotation(waves, shift).T @ projection @ kernel  # [E, d]
        query = np.linalg.pinv(projection) @ turned  # [H, d]
        # Word and position have equal shares in a normalized embedding.
        margin = max(8, abs(shift))
        positions = position_table(48 + 2 * margin, waves) / np.sqrt(2)
        columns = np.arange(margin, margin + 48)
        scores = (positions[columns] @ projection @ query) * (
            positions[columns + shift] @ projection @ kernel
        )
        score = np.mean(np.sum(scores, 1)) / np.sqrt(kernel.shape[1])
        scale = np.sqrt(_SCORE / score)
        queries.append(scale * query)
        keys.append(scale * kernel)
    return np.concatenate(queries, 1), np.concatenate(keys, 1)
