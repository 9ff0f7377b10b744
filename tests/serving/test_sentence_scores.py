"""Texts of any length are scored in windows; no piece is cut off."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.text_reader import TextReader
from electra_tf.serving import blocks, sentence_scores

SIZE = 5  # word pieces in a row
TEXTS = ["", "w1", "w1 w2 w3 w4 w5", "w9 w8 w7 w6 w5 w4", "w3 " * 23, ""]


def _log_probs(ids):
    """Scores a token by its id, its position and the length of its row."""
    ids, mask = (ids[k].numpy() for k in ("input_ids", "input_mask"))
    places = np.arange(ids.shape[1])
    sizes = mask.sum(1, keepdims=True)
    scores = -(ids + places / 8 + sizes / 256) * (mask > 0) - 999 * (mask == 0)
    return tf.constant(scores, tf.float32)


def _expected(ids):
    """Returns the scores of a text, each from the window with most context."""
    last = max(0, len(ids) - SIZE)
    starts = [*range(0, last, SIZE // 2), last]
    scores = []
    for place, token in enumerate(ids):
        margins = [min(place - s, s + SIZE - 1 - place) for s in starts]
        start = starts[int(np.argmax(margins))]
        size = min(SIZE, len(ids) - start) + 2
        scores.append(-(token + (1 + place - start) / 8 + size / 256))
    return scores


@pytest.mark.parametrize("block_size", [2, 32])
def test_each_piece_is_scored_once_where_it_has_most_context(
    block_size, monkeypatch
):
    monkeypatch.setattr(blocks, "BLOCK_SIZE", block_size)
    reader = TextReader(tiny.VOCABULARY, max_seq_length=SIZE + 2)
    found = sentence_scores.score(tf.constant(TEXTS), reader, _log_probs)
    found = {name: x.numpy() for name, x in found.items()}
    for row, text in enumerate(TEXTS):
        words = text.split()
        expected = _expected([*map(tiny.VOCABULARY.tokens.index, words)])
        log_probs = found["log_probs"][row]
        np.testing.assert_allclose(
            log_probs[: len(words)], expected, rtol=1e-6, err_msg=text
        )
        assert not log_probs[len(words) :].any()
        tokens = [token.decode() for token in found["tokens"][row]]
        assert tokens == words + [""] * (23 - len(words))
        assert found["num_tokens"][row] == len(words)
        np.testing.assert_allclose(found["total"][row], sum(expected), 1e-6)
        mean = np.mean(expected) if words else 0
        np.testing.assert_allclose(found["mean"][row], mean, 1e-6)


def test_an_empty_batch_has_no_scores():
    reader = TextReader(tiny.VOCABULARY, max_seq_length=SIZE + 2)
    found = sentence_scores.score(tf.zeros([0], tf.string), reader, _log_probs)
    assert found["log_probs"].shape[0] == found["total"].shape[0] == 0
