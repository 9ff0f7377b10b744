"""Evaluation on the held-out split: metrics, and samples for a person to read.

Masks and samples are functions of the record's number: two checkpoints meet the
same corruption of the same text, whatever the batch size. Each record counts
once; padding never counts.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from etils import epath

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
from electra_tf.util import console, distribution, files, seeds
from electra_tf.util.errors import UserError

_SEED = 20200323  # of masks and samples; independent of the training seed
_NUM_SAMPLES = 8
_VERDICTS = {  # by whether the token was replaced, and whether it is flagged
    (True, True): "caught",
    (True, False): "missed",
    (False, True): "false alarm",
    (False, False): "same",
}
_LINE = "  {:15} {:15} {:15} {:11} {}"

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
    if problem := health.constant_prediction(model, metrics):
        console.say(f"Note: {problem}")
    if model.token_output in ("energies", "verdicts"):
        console.say(f"\n{samples(model, dataset)}")


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
    """Corrupts and judges some records of a data set's first batch."""
    batch = Inputs(*next(iter(dataset)))
    size = batch.input_ids.shape[0]
    rows = tf.range(0, size, max(1, size // _NUM_SAMPLES))[:_NUM_SAMPLES]
    inputs = Inputs(*(tf.gather(x, rows) for x in batch))
    result = model.forward(inputs, keys=evaluation_keys(rows), training=False)
    arrays = tf.nest.map_structure(
        np.asarray,
        {
            "inputs": inputs,
            "masked": result.masked,
            "fake": result.fake,
            "probability": tf.sigmoid(result.disc_logits),
        },
    )
    return "\n\n".join(
        _sample(
            model.vocabulary,
            **tf.nest.map_structure(lambda x, row=row: x[row], arrays),
        )
        for row in range(len(rows))
        if arrays["inputs"].input_mask[row].any()
    )


def _sample(
    vocabulary: Vocabulary,
    *,
    inputs: Inputs,
    masked: Masked,
    fake: FakeData,
    probability: np.ndarray,
) -> str:
    """Returns the text and the table of one row, whose arrays are [L]."""
    chosen = set(masked.positions[masked.weights > 0].tolist())
    text = ""
    names = ("original", "masked", "generated", "P(replaced)", "verdict")
    lines = [_LINE.format(*names)]
    for t in np.flatnonzero(inputs.input_mask == 1):
        token_id = fake.inputs.input_ids[t]
        token = vocabulary.surface(token_id)
        is_fake, is_flagged = fake.is_fake_tokens[t] > 0, probability[t] > 0.5
        if is_fake or is_flagged or t in chosen:
            token = f"[{token}]"
            cells = (
                vocabulary.tokens[inputs.input_ids[t]],
                vocabulary.tokens[masked.inputs.input_ids[t]],
                vocabulary.tokens[token_id] if t in chosen else "",
                f"{probability[t]:.2f}",
                _VERDICTS[is_fake, is_flagged],
            )
            lines.append(_LINE.format(*cells))
        is_glued = vocabulary.continues_word[token_id] or not text
        text += token if is_glued else f" {token}"
    return "\n".join([text, *lines])
