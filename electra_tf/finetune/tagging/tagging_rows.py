"""Rows of tokens from sentences of words."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from electra_tf.finetune.examples import FeatureSpec
from electra_tf.finetune.preprocessing import TextTokenizer, join
from electra_tf.finetune.tagging.tagging_utils import Window, get_windows
from electra_tf.finetune.task import Row

POSITIONS = FeatureSpec("labeled_positions", is_sequence=True)
"""Where the first token of each word stands."""
COLUMNS = (
    FeatureSpec("first_word"),
    FeatureSpec("labels_mask", is_float=True, is_sequence=True),
    POSITIONS,
)
"""What rows have besides tokens, as `TaggingHead` reads it."""


def rows_of(
    sentences: Sequence[Sequence[str]],
    tokenizer: TextTokenizer,
    max_seq_length: int,
) -> Iterator[tuple[int, Window, Row]]:
    """Yields the rows of sentences, several of one that is long.

    A word of which the tokenizer leaves nothing is [UNK], and one that does not
    fit into a row is cut.

    Args:
      sentences: words of each.
      tokenizer: of the encoder.
      max_seq_length: tokens in the longest row.

    Yields:
      The number of the sentence, which of its words the row has, and the row:
      tokens, all with segment id 1, and `COLUMNS`.
    """
    room = max_seq_length - 2
    unknown = np.array([tokenizer.vocabulary.unk_id])
    words = [word for sentence in sentences for word in sentence]
    tokens = iter(tokenizer.tokenize(words))
    for number, sentence in enumerate(sentences):
        mine = itertools.islice(tokens, len(sentence))
        pieces = [ids[:room] if ids.size else unknown for ids in mine]
        for window in get_windows([len(x) for x in pieces], room):
            part = pieces[window.first : window.end]
            joined = join(tokenizer.vocabulary, np.concatenate(part))
            yield number, window, {**joined, **_columns(window, part)}


def _columns(window: Window, pieces: Sequence[np.ndarray]) -> Row:
    sizes = [len(piece) for piece in pieces]
    numbers = np.arange(window.first, window.end)
    is_scored = (numbers >= window.first_scored) & (numbers < window.end_scored)
    return {
        "segment_ids": np.ones(sum(sizes) + 2, np.int32),
        "first_word": window.first,
        "labels_mask": is_scored.astype(np.float32),
        "labeled_positions": 1 + np.cumsum([0, *sizes[:-1]]),
    }
