"""Evaluation on the held-out split: the same numbers every time.

Masks and samples are functions of the record's number, so that two
checkpoints are judged on the same corruption of the same text and the batch
size does not matter. Each record counts once; padding never counts.
"""

import numpy as np
import tensorflow as tf

from electra_tf.model.losses import LossTerm
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import Detection, PretrainingModel
from electra_tf.util import seeds

_SEED = 20200323  # of masks and samples, whatever the seed of training


def evaluate(
    model: PretrainingModel,
    dataset: tf.data.Dataset,
    *,
    jit_compile: bool = False,
) -> dict[str, float]:
    """Computes the original's metrics over a data set.

    Args:
      model: with the weights to judge.
      dataset: of `Inputs`, finite, batches of one size.
      jit_compile: whether to compile the step with XLA.

    Returns:
      Metric -> value; `disc_auc` is over the tokens that the objective judges
      and does not count padding (the original's does, as correctly judged
      real tokens: `disc_auc_with_padding`).
    """
    step = tf.function(model.evaluation_step, jit_compile=jit_compile)
    sums: dict[str, LossTerm] = {}
    verdicts: list[tuple[np.ndarray, np.ndarray]] = []
    num_padding = first = 0
    for inputs in dataset:
        inputs = Inputs(*inputs)
        rows = tf.range(inputs.input_ids.shape[0]) + first
        first += inputs.input_ids.shape[0]
        terms, detection = step(inputs, keys=evaluation_keys(rows))
        for name, term in terms.items():
            old = sums.get(name, LossTerm(0.0, 0.0))
            new = (float(x) for x in term)
            sums[name] = LossTerm(*map(sum, zip(old, new, strict=True)))
        if detection is not None:
            verdicts.append(_judged_tokens(detection))
            num_padding += _num_padding(inputs)
    metrics = {
        name: term.total / term.weight if term.weight else 0.0
        for name, term in sums.items()
    }
    metrics["loss"] = sum(
        metrics[name] * weight for name, weight in model.loss_weights.items()
    )
    if verdicts:
        logits, labels = map(np.concatenate, zip(*verdicts, strict=True))
        metrics |= _area_metrics(logits, labels, num_padding)
    return metrics


def evaluation_keys(rows: tf.Tensor) -> tf.Tensor:
    """Returns the random keys of held-out records.

    Args:
      rows: int32 [B], the records' numbers.

    Returns:
      uint32 [B].
    """
    return seeds.row_keys(_SEED, tf.constant(0), rows)


def area_under_curve(scores: np.ndarray, labels: np.ndarray) -> float:
    """Computes the area under the ROC curve exactly, ties counting half.

    Args:
      scores: float [n], higher for label 1.
      labels: int [n], 0 or 1.

    Returns:
      P(score of a random 1 > score of a random 0); 0.5 if a class is empty.
    """
    num_ones = int(labels.sum())
    num_zeros = labels.size - num_ones
    if not num_ones or not num_zeros:
        return 0.5
    _, group, counts = np.unique(
        scores, return_inverse=True, return_counts=True
    )
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[group]  # mean rank of each tie, from 1
    wins = ranks[labels == 1].sum() - num_ones * (num_ones + 1) / 2
    return float(wins / (num_ones * num_zeros))


def _judged_tokens(detection: Detection) -> tuple[np.ndarray, np.ndarray]:
    judged = detection.judged.numpy() > 0
    return detection.logits.numpy()[judged], detection.labels.numpy()[judged]


def _num_padding(inputs: Inputs) -> int:
    """Counts the padding of rows that hold a token."""
    is_real = inputs.is_real.numpy()
    return int((~is_real[is_real.any(1)]).sum())


def _area_metrics(
    logits: np.ndarray, labels: np.ndarray, num_padding: int
) -> dict[str, float]:
    area = area_under_curve(logits, labels)
    num_zeros = labels.size - int(labels.sum())
    padded = (area * num_zeros + num_padding) / max(1, num_zeros + num_padding)
    return {"disc_auc": area, "disc_auc_with_padding": padded}
