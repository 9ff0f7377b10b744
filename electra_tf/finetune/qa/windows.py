"""Windows on the tokens of a context, as long as a row has room for.

Source: the original's finetune/qa/qa_tasks.py, which has them from BERT's
run_squad.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """A part of a context.

    Attributes:
      start: number of its first token.
      length: tokens in it.
    """

    start: int
    length: int


def get_windows(num_tokens: int, room: int, stride: int) -> list[Window]:
    """Covers a context with windows, each `stride` tokens after the last.

    Args:
      num_tokens: of the context; one window, an empty one, shows none.
      room: tokens in a window.
      stride: at most `room` counts, so that no token is left out.
    """
    windows = [Window(0, min(room, num_tokens))]
    while sum(windows[-1]) < num_tokens:
        start = windows[-1].start + min(room, stride)
        windows.append(Window(start, min(room, num_tokens - start)))
    return windows


def max_context(windows: Sequence[Window], num_tokens: int) -> np.ndarray:
    """Finds the window that shows the most context of each token.

    That is the window where the shorter of the two sides is longest; a longer
    window counts a little more, and of equals the first is taken.

    Args:
      windows: of a context.
      num_tokens: of the context.

    Returns:
      int64 [num_tokens], the number of a window for each token.
    """
    starts, lengths = np.array(windows).T[:, :, np.newaxis]  # [windows, 1]
    places = np.arange(num_tokens)
    left, right = places - starts, starts + lengths - 1 - places
    shorter = np.minimum(left, right)  # [windows, tokens], < 0 outside
    scores = np.where(shorter >= 0, shorter + 0.01 * lengths, -1.0)
    return np.argmax(scores, axis=0)


def find_tokens(
    tokens: np.ndarray, answer: np.ndarray, first: int, end: int
) -> tuple[int, int]:
    """Finds an answer among the tokens of the words that hold it.

    The first and last word may say more than the answer: of "(1895-1943)."
    it may be 1895.

    Args:
      tokens: int [n], of the context.
      answer: int [m], its tokens.
      first: the first token of those words.
      end: the first token after them.

    Returns:
      Numbers of the first and the last token: those of the words, where the
      answer is not among them.
    """
    size = len(answer)
    for start in range(first, end - size + 1):
        if size and np.array_equal(tokens[start : start + size], answer):
            return start, start + size - 1
    return first, end - 1
