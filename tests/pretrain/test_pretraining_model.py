import functools

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.pretrain import run as pretraining_run
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.training import training_utils, updates

NUM_STEPS = 20


@functools.cache
def _train(num_replicas=1, **leaves):
    """Returns the loss at each step, and the weights at the end."""
    config = tiny.config(
        num_hidden_layers=1,
        hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.2,
        **leaves,
    )
    strategy = tiny.replicas(num_replicas)
    model = pretraining_run.make_model(config, tiny.VOCABULARY, strategy)
    rows = [tiny.batch(seed=seed) for seed in range(NUM_STEPS)]
    rows = Inputs(*(tf.concat(x, 0) for x in zip(*rows, strict=True)))
    batches = tf.data.Dataset.from_tensor_slices(rows)
    batches = batches.batch(8 // num_replicas, drop_remainder=True)
    batches = strategy.distribute_datasets_from_function(lambda _: batches)
    block = training_utils.make_block(model, strategy)
    sums = block(iter(batches), NUM_STEPS)
    losses = training_utils.losses(sums, model.loss_weights)
    return losses, {v.path: v.numpy() for v in model.trainable_variables}


@pytest.fixture(autouse=True)
def small_clip_norm(monkeypatch):
    """Makes clipping act on the global gradient."""
    monkeypatch.setattr(updates, "CLIP_NORM", 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "optimizer", "num_replicas", "num_parts", "recompute"),
    [
        ("mlm", "adam", 2, 2, False),
        ("electra", "adam", 4, 1, False),
        ("electra", "adam", 1, 4, False),
        ("electra", "adam", 2, 2, True),
        ("electra", "muon", 2, 2, False),
    ],
)
def test_replicas_micro_batches_and_recomputation_change_nothing(
    objective, optimizer, num_replicas, num_parts, recompute
):
    parts = {"gradient_accumulation_steps": num_parts, "recompute": recompute}
    leaves = {"objective": objective, "optimizer": optimizer}
    losses, weights = _train(num_replicas=num_replicas, **parts, **leaves)
    expected, expected_weights = _train(**leaves)
    rtol = 1e-5 if recompute else 1e-6
    np.testing.assert_allclose(losses, expected, rtol=rtol)
    for name, value in weights.items():
        np.testing.assert_allclose(value, expected_weights[name], atol=1e-5)


@pytest.mark.parametrize("is_shifted", [False, True])
def test_short_rows_train_late_positions_only_if_shifted(is_shifted):
    lengths = {"max_seq_length": 32, "seq_length_phases": "16:0.5,32:0.5"}
    lengths |= {"num_hidden_layers": 1, "shift_positions": is_shifted}
    model = tiny.model(tiny.config(**lengths))
    model.update(tiny.batch(length=16))
    slots = updates.checkpoint_variables(model)
    slot = slots["electra/embeddings/position_embeddings/adam_m"].numpy()
    assert (slot[16:] != 0).any() == is_shifted
