"""What several models say together about the spans of the same rows.

Letters in shapes: n rows, K places in a beam, M models.
"""

from collections.abc import Sequence

import numpy as np

from electra_tf.finetune.scorer import Outputs, mean

_PLAIN = ("start_logits", "end_logits", "answerable_logit", "loss")


def combine(outputs: Sequence[Outputs]) -> dict[str, np.ndarray]:
    """Averages over models: probabilities of spans in beams, other logits.

    To a model that has a span not in its beam it is impossible.

    Args:
      outputs: of the head of each model; see `QAScorer`.

    Returns:
      As of one model; the beams of all stand one after the other, M * K starts
      with K ends each, so that a span may be there several times.
    """
    first = outputs[0]
    joined = {
        **first,
        **{name: mean(outputs, name) for name in _PLAIN if name in first},
    }
    if "null_log_prob" in first:
        scores = np.stack([x["null_log_prob"] for x in outputs])
        total = np.logaddexp.reduce(scores, 0)
        joined["null_log_prob"] = total - np.float32(np.log(len(outputs)))
    if "start_top_index" not in first:
        return joined
    starts = _joined(outputs, "start_top_index")  # [n, M * K]
    ends = _joined(outputs, "end_top_index")  # [n, M * K, K]
    start_scores = _joined(outputs, "start_top_log_probs")
    scores = start_scores[..., None] + _joined(outputs, "end_top_log_probs")
    length = 1 + int(max(starts.max(initial=0), ends.max(initial=0)))
    spans = starts[..., None].astype(np.int64) * length + ends
    of_starts = _log_mean(starts, start_scores, len(outputs))
    of_spans = _log_mean(spans, scores, len(outputs))
    return {
        **joined,
        "start_top_index": starts,
        "end_top_index": ends,
        "start_top_log_probs": of_starts,
        "end_top_log_probs": of_spans - of_starts[..., None],
    }


def _joined(outputs: Sequence[Outputs], name: str) -> np.ndarray:
    return np.concatenate([part[name] for part in outputs], 1)


def _log_mean(
    keys: np.ndarray, log_probs: np.ndarray, count: int
) -> np.ndarray:
    """Averages probabilities that have the same key in the same row.

    Args:
      keys: int [n, ...], at least 0.
      log_probs: float32 [n, ...], of each.
      count: models, each of which has a key at most once in a row.

    Returns:
      float32 [n, ...], the logarithm of the mean.
    """
    n = len(keys)
    keys = keys.reshape(n, -1).astype(np.int64)
    rows = np.arange(n, dtype=np.int64)[:, None]
    flat = (rows * (1 + keys.max(initial=0)) + keys).ravel()
    _, groups = np.unique(flat, return_inverse=True)
    values = log_probs.astype(np.float64).ravel()
    sums = np.full(groups.max(initial=-1) + 1, -np.inf)
    np.logaddexp.at(sums, groups, values)
    means = sums[groups] - np.log(count)
    return means.reshape(log_probs.shape).astype(np.float32)
