import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.pretrain import evaluation
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
