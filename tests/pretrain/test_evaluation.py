"""Held-out metrics by their formulas, and warnings of unhealthy ones."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.pretrain import evaluation, health
from electra_tf.pretrain import run as pretraining_run


def _pairwise_auc(scores, labels):
    ones, zeros = scores[labels == 1], scores[labels == 0]
    wins = (ones[:, None] > zeros).mean()
    return wins + 0.5 * (ones[:, None] == zeros).mean()


NUM_RECORDS = 14
GROUPED = {"objective": "coco_lm", "contrast_group": 2}


def _formula(model):
    """Returns the metrics from one forward pass over all records at once."""
    inputs, rows = tiny.batch(NUM_RECORDS), tf.range(NUM_RECORDS)
    keys = evaluation.evaluation_keys(rows)
    terms, detection = model.evaluation_step(inputs, keys=keys)
    means = {name: float(term.mean()) for name, term in terms.items()}
    means["loss"] = sum(w * means[k] for k, w in model.loss_weights.items())
    if detection is None:
        return means
    logits, labels, judged = map(np.array, detection)
    is_real = inputs.input_mask.numpy() > 0
    np.testing.assert_array_equal(judged > 0, is_real)
    padded = np.where(is_real, logits, -np.inf).ravel()
    means["disc_auc"] = _pairwise_auc(logits[is_real], labels[is_real])
    means["disc_auc_with_padding"] = _pairwise_auc(padded, labels.ravel())
    return means


SLOW = pytest.mark.slow
XLA = {"jit_compile": "true"}


@pytest.mark.parametrize(
    ("num_replicas", "batch_size", "leaves"),
    [
        (1, 5, {}),
        (1, 20, {"objective": "mlm"}),
        pytest.param(2, 6, GROUPED, marks=SLOW),
        pytest.param(4, 6, {}, marks=SLOW),
        pytest.param(2, 5, XLA, marks=SLOW),
        pytest.param(2, 6, {"objective": "mc_bert"}, marks=SLOW),
    ],
)
def test_each_record_counts_once_whatever_replicas_and_batches(
    num_replicas, batch_size, leaves
):
    config = tiny.config(num_hidden_layers=1, initializer_range=0.5, **leaves)
    strategy = tiny.replicas(num_replicas)
    model = pretraining_run.make_model(config, tiny.VOCABULARY, strategy)
    records = tf.data.Dataset.from_tensor_slices(tiny.batch(NUM_RECORDS))
    found = evaluation.evaluate(model, records.batch(batch_size))
    expected = _formula(model)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=2e-5), name


HEALTHY = {
    "loss": 10.0,
    "disc_loss": 0.2,
    "replaced_share": 0.1,
    "sampled_masked_lm_accuracy": 0.3,
}
LATE = range(100, 3000, 100)
FIRST, NEXT = [1], [3000]
SURE = {"sampled_masked_lm_accuracy": 0.9}
STAGES = tiny.TWO_STAGE | {"num_train_steps": 10_380}  # 5,190 each
STAGE_MEANS = [
    (range(200, 5001, 200), {"loss": 4.0}),
    ([5200], {"loss": 5.0}),  # updates of both stages
    (range(5400, 6200, 200), {"loss": 24.0}),
]
RISE = (range(6200, 7200, 200), {"loss": 48.0})


@pytest.mark.parametrize(
    ("num_warnings", "leaves", "parts"),
    [
        (0, {}, [(FIRST, {"loss": 39.0}), (LATE, {})]),  # chance: 38.75
        (1, {}, [(FIRST, {"loss": 70.0})]),
        (0, {"init_checkpoint": "x"}, [(FIRST, {"loss": 20.0})]),
        (1, {}, [(LATE, {"disc_loss": 0.324})]),
        (0, {"objective": "electric"}, [(LATE, {"disc_loss": 0.34})]),
        (0, {"num_warmup_steps": 5000}, [([9000], {"disc_loss": 0.324})]),
        (0, {"disc_weight_steps": (0, 15)}, [([1014], {"disc_loss": 0.69})]),
        (0, {}, [(LATE, {}), (NEXT, {"loss": 20.0}), ([3100], {})]),
        (0, {}, [(LATE, {"generator_entropy": 1.0, "masked_lm_loss": 3.0})]),
        (1, {}, [(LATE, {"generator_entropy": 0.5, "masked_lm_loss": 3.0})]),
        (1, {}, [(range(100, 900, 100), {}), (LATE, {"loss": 30.0})]),
        # A warning comes again after its problem cleared.
        (2, {}, [(LATE, SURE), (NEXT * 20, {}), (NEXT * 20, SURE)]),
        (0, STAGES, STAGE_MEANS),
        (1, STAGES, [*STAGE_MEANS, RISE]),
    ],
)
def test_problems_are_named_once(num_warnings, leaves, parts):
    """Blocks end at given steps, with given metrics."""
    model = tiny.model(tiny.config(num_hidden_layers=1, **leaves), tiny.COUNTED)
    warnings = []
    monitor = health.HealthMonitor(model, warnings.append)
    for steps, values in parts:
        for step in steps:
            monitor.on_epoch_end(step, HEALTHY | values)
    assert len(warnings) == num_warnings, warnings
