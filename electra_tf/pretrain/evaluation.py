"""Evaluation on the held-out split: metrics, and samples for a person to read.

Masks and samples are functions of the record's number, so that two
checkpoints are judged on the same corruption of the same text and the batch
size does not matter. Each record counts once; padding never counts.
"""

import sys
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from electra_tf.checkpoint import calibration
from electra_tf.data.reading import Records
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import health, pretrain_data
from electra_tf.pretrain.flops import training_flops
from electra_tf.pretrain.metrics import FakeData
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.pretraining_model import Detection, PretrainingModel
from electra_tf.training import training_utils
from electra_tf.training.callbacks import TRAINING_FLOPS
from electra_tf.util import console, distribution, files, seeds, storage
from electra_tf.util.errors import UserError

_SEED = 20200323  # of masks and samples; independent of the training seed
_CHUNK = 2**20  # scores that are ranked at once, 8 bytes each

MetricSums = dict[str, tf.Tensor]
"""Metric -> float32 [2], its total and weight over a batch."""

Step = Callable[[Inputs, tf.Tensor], tuple[MetricSums, Detection | None]]
"""Function of a global batch, whose number of rows is a multiple of the
replicas, and of the number of its first record, int32 scalar."""


def report(
    model: PretrainingModel, held_out: Records, results_dir: storage.Path
) -> None:
    """Writes held-out metrics to `pretraining_eval.json`, prints samples."""
    config = model.config
    dataset = pretrain_data.evaluation_dataset(
        held_out, batch_size=config.runtime.eval_batch_size
    )
    num_steps = config.runtime.num_eval_steps or -1
    metrics = evaluate(model, dataset.take(num_steps))
    if not distribution.is_chief(model.distribute_strategy):
        return
    step = int(model.optimizer.iterations.numpy())
    flops = training_flops(config, model.vocabulary.size, step)
    files.ensure_writable(results_dir)
    files.write_json(
        results_dir / "pretraining_eval.json",
        {
            "global_step": step,
            TRAINING_FLOPS: flops,
            **dict(sorted(metrics.items())),
        },
    )
    console.say(
        f"Held-out metrics at step {step:,}, after {flops:.3e} FLOPs of "
        "training:"
    )
    for name, value in sorted(metrics.items()):
        console.say(f"  {name:28} {value:.4f}")
    problem = health.constant_prediction(
        metrics, has_energies=model.token_output == "energies"
    )
    if problem is not None:
        console.say(f"Note: {problem}")
    if config.run.num_samples and has_verdicts(model):
        console.say()
        console.say(
            samples(
                model,
                dataset,
                config.run.num_samples,
                in_colour=sys.stdout.isatty(),
            )
        )


def evaluate(
    model: PretrainingModel, dataset: tf.data.Dataset, step: Step | None = None
) -> dict[str, float]:
    """Computes the original's metrics over a data set, on all replicas."""
    step = step or make_step(model)
    sums: dict[str, np.ndarray] = {}
    verdicts: list[tuple[np.ndarray, np.ndarray]] = []
    group_size = model.batch_group_size(model.config)
    multiple = group_size * model.distribute_strategy.num_replicas_in_sync
    num_padding = first = num_rows = 0
    for inputs in dataset:
        _check_groups(first, group_size)
        inputs = Inputs(*inputs)
        size = inputs.input_ids.shape[0]
        num_rows = max(num_rows, -(-size // multiple) * multiple)
        found, detection = step(_padded(inputs, num_rows), tf.constant(first))
        first += size
        for name, sum_and_weight in found.items():
            sums[name] = sums.get(name, 0.0) + np.float64(sum_and_weight)
        if detection is not None:
            logits, labels, judged = (x.numpy() for x in detection)
            verdicts.append((logits[judged > 0], labels[judged > 0] > 0))
            num_padding += _num_padding(inputs)
    if not sums:
        raise UserError(
            "The evaluation data must not be empty. Received: no batch. Give "
            "at least one row."
        )
    metrics = {
        name: float(training_utils.ratio(pair)) for name, pair in sums.items()
    }
    metrics["loss"] = sum(
        metrics[name] * weight for name, weight in model.loss_weights.items()
    )
    if verdicts:
        logits, labels = map(np.concatenate, zip(*verdicts, strict=True))
        verdicts.clear()  # they would be in memory twice
        metrics |= _area_metrics(logits, labels, num_padding)
    return metrics


def _check_groups(num_rows: int, group_size: int) -> None:
    """Refuses batches that divide rows which the objective keeps together."""
    if num_rows % group_size:
        raise UserError(
            "The batch size must be a multiple of "
            f"{group_size} rows, which this objective keeps together. "
            f"Received: {num_rows} rows in the batches before the last. Set "
            "another batch_size."
        )


def make_step(model: PretrainingModel) -> Step:
    """Makes a function that evaluates a batch, divided among the replicas."""
    strategy = model.distribute_strategy

    def evaluate_part(inputs: Inputs, first: tf.Tensor) -> tuple:
        rows = tf.range(inputs.input_ids.shape[0]) + first
        keys = evaluation_keys(rows)
        found, detection = model.evaluation_step(inputs, keys=keys)
        return {k: tf.stack(term) for k, term in found.items()}, detection

    if model.jit_compile_step:  # per replica, as in an update
        evaluate_part = tf.function(
            evaluate_part, autograph=False, jit_compile=True
        )

    def evaluate_replica(inputs: Inputs, first: tf.Tensor) -> tuple:
        replica = tf.distribute.get_replica_context()
        size = inputs.input_ids.shape[0] // replica.num_replicas_in_sync
        number = replica.replica_id_in_sync_group
        parts = (tf.reshape(x, [-1, size, x.shape[1]]) for x in inputs)
        replica_inputs = Inputs(*(tf.gather(x, number) for x in parts))
        found, detection = evaluate_part(replica_inputs, first + number * size)
        found = replica.all_reduce("SUM", found)
        if detection is not None:
            detection = replica.all_gather(detection, axis=0)
        return found, detection

    def evaluate_batch(inputs: Inputs, first: tf.Tensor) -> tuple:
        results = strategy.run(evaluate_replica, args=(inputs, first))
        local = strategy.experimental_local_results
        return tf.nest.map_structure(lambda x: local(x)[0], results)

    return tf.function(evaluate_batch, autograph=False)


def evaluation_keys(rows: tf.Tensor) -> tf.Tensor:
    """Returns the random keys of held-out records.

    Shapes: rows [B]; returns [B].
    """
    return seeds.row_keys(_SEED, tf.constant(0), rows)


def area_under_curve(scores: np.ndarray, labels: np.ndarray) -> float:
    """Computes the area under the ROC curve exactly, ties counting half."""
    is_one = labels.astype(bool, copy=False)
    ones, zeros = scores[is_one], scores[~is_one]
    if not ones.size or not zeros.size:
        return 0.5
    ones.sort()  # in order they are found faster
    zeros.sort()
    double_wins = sum(
        int(zeros.searchsorted(ones[i : i + _CHUNK], side).sum())
        for i in range(0, ones.size, _CHUNK)
        for side in ("left", "right")
    )
    return double_wins / (2 * ones.size * zeros.size)


def _padded(inputs: Inputs, num_rows: int) -> Inputs:
    """Adds rows of padding, which do not count."""
    num_blank = num_rows - inputs.input_ids.shape[0]
    return Inputs(*(tf.pad(x, [[0, num_blank], [0, 0]]) for x in inputs))


def _num_padding(inputs: Inputs) -> int:
    """Counts the padding positions of rows that have a token."""
    is_real = inputs.is_real.numpy()
    return int((~is_real[is_real.any(1)]).sum())


def _area_metrics(
    logits: np.ndarray, labels: np.ndarray, num_padding: int
) -> dict[str, float]:
    area = area_under_curve(logits, labels)
    num_zeros = labels.size - int(labels.sum())
    padded = (area * num_zeros + num_padding) / max(1, num_zeros + num_padding)
    return {"disc_auc": area, "disc_auc_with_padding": padded}


_COLOURS = {"caught": 32, "missed": 33, "false alarm": 31, "same": 36}
_COLUMNS = ("original", "masked", "generated", "P(replaced)")
_WIDTHS = (16, 16, 16, 12)


def has_verdicts(model: PretrainingModel) -> bool:
    """Returns whether a model has a discriminator, for `samples` to show."""
    return model.token_output in ("verdicts", "energies")


def samples(
    model: Electra,
    dataset: tf.data.Dataset,
    num_samples: int,
    *,
    in_colour: bool = False,
) -> str:
    """Corrupts and judges some records of a data set's first batch."""
    batch = Inputs(*next(iter(dataset)))
    size = batch.input_ids.shape[0]
    rows = tf.range(0, size, max(1, size // num_samples))[:num_samples]
    inputs = Inputs(*(tf.gather(x, rows) for x in batch))
    made = model.forward(inputs, keys=evaluation_keys(rows), training=False)
    records = (made.inputs, made.masked, made.fake, made.disc_logits)
    arrays = tf.nest.map_structure(np.asarray, records)
    lengths = (arrays[0].input_mask == 1).sum(1)
    return "\n\n".join(
        _sample(
            tf.nest.map_structure(lambda x, row=row: x[row], arrays),
            model.vocabulary,
            in_colour,
        )
        for row in range(len(lengths))
        if lengths[row]
    )


def _sample(
    row: tuple[Inputs, Masked, FakeData, np.ndarray],
    vocabulary: Vocabulary,
    in_colour: bool,
) -> str:
    """Returns the table of one row, whose arrays are [L] or [N]."""
    inputs, masked, fake, logits = row
    length = int((inputs.input_mask == 1).sum())
    corrupted = fake.inputs.input_ids
    probability = calibration.probability(logits)
    chosen = set(masked.positions[masked.weights > 0].tolist())
    is_fake = fake.is_fake_tokens > 0
    lines, marks = [_line(_COLUMNS, "verdict")], {}
    for t in range(length):
        verdict = _verdict(is_fake[t], probability[t] > 0.5, t in chosen)
        if verdict is None:
            continue
        cells = (
            vocabulary.tokens[inputs.input_ids[t]],
            vocabulary.tokens[masked.inputs.input_ids[t]],
            vocabulary.tokens[corrupted[t]] if t in chosen else "",
            f"{probability[t]:.2f}",
        )
        marks[t] = verdict
        lines.append(_line(cells, _colour(verdict, verdict, in_colour)))
    text = _text(corrupted[:length], marks, vocabulary, in_colour)
    return "\n".join([text, *lines])


def _line(cells: tuple[str, ...], verdict: str) -> str:
    padded = (cell.ljust(n - 1) for cell, n in zip(cells, _WIDTHS, strict=True))
    return "  " + " ".join((*padded, verdict))


def _verdict(is_fake: bool, is_flagged: bool, was_masked: bool) -> str | None:
    if is_fake:
        return "caught" if is_flagged else "missed"
    if is_flagged:
        return "false alarm"
    return "same" if was_masked else None


def _text(
    ids: np.ndarray,
    marks: dict[int, str],
    vocabulary: Vocabulary,
    in_colour: bool,
) -> str:
    """Joins word pieces into text, with marked tokens in square brackets."""
    text = ""
    for t, token_id in enumerate(ids):
        glue = "" if vocabulary.continues_word[token_id] or not text else " "
        token = vocabulary.surface(token_id)
        if t in marks:
            token = _colour(f"[{token}]", marks[t], in_colour)
        text += glue + token
    return text


def _colour(text: str, verdict: str, in_colour: bool) -> str:
    return f"\x1b[{_COLOURS[verdict]}m{text}\x1b[0m" if in_colour else text
