"""Evaluation on the held-out split: metrics, and samples for a person to read.

Masks and samples are functions of the record's number: two checkpoints meet the
same corruption of the same text, whatever the batch size. Each record counts
once; padding never counts.
"""

import json
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from etils import epath

from electra_tf.data.reading import Records
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import health, pretrain_data
from electra_tf.pretrain.flops import training_flops
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import Detection, PretrainingModel
from electra_tf.training import training_utils
from electra_tf.training.callbacks import METRICS_FILE, TRAINING_FLOPS
from electra_tf.util import console, distribution, files, seeds
from electra_tf.util.errors import UserError

_SEED = 20200323  # of masks and samples; independent of the training seed
_VERDICTS = {  # by whether the token was replaced, and whether it is flagged
    (True, True): "caught",
    (True, False): "missed",
    (False, True): "false alarm",
}
_COLUMNS = ("original", "generated", "P(replaced)", "verdict")
_LINE = "  {:15} {:15} {:11} {}"

Step = Callable[[Inputs, tf.Tensor], tuple[dict, Detection | None]]
"""Evaluates a global batch, whose first record has the given number: metric ->
float32 [2], its total and weight, and the verdicts."""


def report(model: PretrainingModel, held_out: Records) -> None:
    """Writes held-out metrics to `pretraining_eval.json`, prints samples."""
    config = model.config
    dataset = pretrain_data.evaluation_dataset(
        held_out, batch_size=config.runtime.eval_batch_size
    )
    metrics = evaluate(model, dataset.take(config.runtime.num_eval_steps or -1))
    if not distribution.is_chief(model.distribute_strategy):
        return
    step = int(model.optimizer.iterations.numpy())
    flops = training_flops(config, model.vocabulary.size, step)
    metrics = dict(sorted(metrics.items()))
    results_dir = epath.Path(config.run.model_dir) / "results"
    results_dir.mkdir(parents=True, exist_ok=True)
    files.write_json(
        results_dir / "pretraining_eval.json",
        {"global_step": step, TRAINING_FLOPS: flops, **metrics},
    )
    console.say(
        f"Held-out metrics at step {step:,}, after {flops:.3e} FLOPs of "
        "training:"
    )
    for name, value in metrics.items():
        console.say(f"  {name:28} {value:.4f}")
    for name in model.loss_weights:
        console.say(_course(results_dir.parent / METRICS_FILE, name))
    if problem := health.constant_prediction(model, metrics):
        console.say(f"Note: {problem}")
    if model.token_output in ("energies", "verdicts"):
        console.say(f"\n{samples(model, dataset)}")


def _course(log: epath.Path, name: str) -> str:
    """Draws a loss of the training log on one line, of 40 intervals."""
    lines = (
        map(json.loads, log.read_text().splitlines()) if log.exists() else ()
    )
    points = [(x["step"], x[name]) for x in lines if name in x]
    if len(points) < 2:
        return ""
    steps, values = np.array(points).T
    values = np.interp(np.linspace(steps[0], steps[-1], 40), steps, values)
    low, high = values.min(), values.max()
    heights = 7 * (values - low) / max(high - low, 1e-9)
    bars = "".join("▁▂▃▄▅▆▇█"[round(height)] for height in heights)
    return f"  {name:20} {points[0][1]:7.3f} {bars} {points[-1][1]:.3f}"


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
    for batch in dataset:
        if first % group_size:
            raise UserError(
                f"The batch size must be a multiple of {group_size} rows, "
                "which this objective keeps together."
            )
        inputs = Inputs(*batch)
        size = inputs.input_ids.shape[0]
        num_rows = max(num_rows, -(-size // multiple) * multiple)
        blank = [[0, num_rows - size], [0, 0]]  # rows that do not count
        padded = Inputs(*(tf.pad(x, blank) for x in inputs))
        found, detection = step(padded, tf.constant(first))
        first += size
        for name, sum_and_weight in found.items():
            sums[name] = sums.get(name, 0.0) + np.float64(sum_and_weight)
        if detection is not None:
            logits, labels, judged = (x.numpy() for x in detection)
            verdicts.append((logits[judged > 0], labels[judged > 0] > 0))
            is_real = inputs.is_real.numpy()
            num_padding += int((~is_real[is_real.any(1)]).sum())
    if not sums:
        raise UserError("The evaluation data are empty.")
    metrics = {
        name: float(training_utils.ratio(pair)) for name, pair in sums.items()
    }
    metrics["loss"] = sum(
        metrics[name] * weight for name, weight in model.loss_weights.items()
    )
    if verdicts:
        logits, labels = map(np.concatenate, zip(*verdicts, strict=True))
        verdicts.clear()  # they would be in memory twice
        area = area_under_curve(logits, labels)
        num_zeros = labels.size - int(labels.sum())
        metrics["disc_auc"] = area
        # Padding counts as surely real.
        metrics["disc_auc_with_padding"] = (
            area * num_zeros + num_padding
        ) / max(1, num_zeros + num_padding)
    return metrics


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
    """Returns the random keys of held-out records: rows [B] -> [B]."""
    return seeds.row_keys(_SEED, tf.constant(0), rows)


def area_under_curve(scores: np.ndarray, labels: np.ndarray) -> float:
    """Computes the area under the ROC curve exactly, ties counting half."""
    # Half the memory of scikit-learn's, which also warns of a single class.
    ones, zeros = np.sort(scores[labels]), np.sort(scores[~labels])
    if not ones.size or not zeros.size:
        return 0.5
    wins = sum(zeros.searchsorted(ones, x).sum() for x in ("left", "right"))
    return float(wins / (2 * ones.size * zeros.size))


def samples(model: Electra, dataset: tf.data.Dataset) -> str:
    """Corrupts and judges a batch; shows what is caught, missed and mistaken.

    Three rows: the one with the surest catches, the one with the replacement
    that looks most real, and the one with the surest false alarm.
    """
    inputs = Inputs(*next(iter(dataset)))
    rows = tf.range(inputs.input_ids.shape[0])
    result = model.forward(inputs, keys=evaluation_keys(rows), training=False)
    probability = tf.sigmoid(result.disc_logits).numpy()  # [B, L]
    original, shown = inputs.input_ids.numpy(), result.fake.inputs.input_ids
    is_real, is_fake = inputs.is_real.numpy(), original != shown.numpy()
    margin = np.where(is_fake & is_real, probability - 0.5, 0)
    scores = [
        margin.sum(1),
        -margin.min(1),
        (probability * (is_real & ~is_fake)).max(1),
    ]
    chosen: list[int] = []
    for score in scores:
        order = np.argsort(-score, kind="stable").tolist()
        chosen += [row for row in order if row not in chosen][:1]
    arrays = (original, shown.numpy(), probability)
    return "\n\n".join(
        _sample(model.vocabulary, *(x[row][is_real[row]] for x in arrays))
        for row in chosen
    )


def _sample(
    vocabulary: Vocabulary,
    original: np.ndarray,
    shown: np.ndarray,
    probability: np.ndarray,
) -> str:
    """Returns a text of L tokens and a table of its errors; arrays are [L]."""
    text, lines = "", [_LINE.format(*_COLUMNS)]
    for first, token_id, p in zip(original, shown, probability, strict=True):
        token = vocabulary.surface(token_id)
        is_fake, is_flagged = first != token_id, p > 0.5
        if is_fake or is_flagged:
            token = f"[{token}]"
            names = vocabulary.tokens[first], vocabulary.tokens[token_id]
            verdict = _VERDICTS[is_fake, is_flagged]
            lines.append(_LINE.format(*names, f"{p:.2f}", verdict))
        is_glued = vocabulary.continues_word[token_id] or not text
        text += token if is_glued else f" {token}"
    return "\n".join([text, *lines])
