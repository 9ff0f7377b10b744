"""XLA lowers the whole update of a replica, for every objective.

A run compiles only the forward and backward pass (`UpdatedModel._accumulate`),
whose results `objectives/test_contract.py` compares. If the whole update is
lowered, with its loop over micro-batches, the clip and the optimizer, XLA has
code for each of its operations.
"""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.config.objectives import OBJECTIVES
from electra_tf.model import xla_kernels

pytestmark = pytest.mark.slow

_NUM_UPDATES = 2
_TOLERANCE = 1e-5


def _model(name):
    config = tiny.config(
        num_hidden_layers=2 if name == "teams" else 1,
        gradient_accumulation_steps=2,
        clip_norm=0.5,
        num_warmup_steps=0,
        **tiny.VARIANTS[name],
    )
    return tiny.model(config, tiny.COUNTED)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_xla_lowers_the_whole_update(name):
    update = tf.function(_model(name).update, autograph=False, jit_compile=True)
    lower = update.experimental_get_compiler_ir(tiny.batch(seed=0))
    assert "while" in lower(stage="hlo")  # over the micro-batches


def _train(name, **options):
    """Returns the losses of each update, and all weights after the last."""
    model = _model(name)
    update = tf.function(model.update, autograph=False, **options)
    losses = []
    for seed in range(_NUM_UPDATES):
        metrics = update(tiny.batch(seed=seed))
        clip_norm = model.config.optimizer.clip_norm
        assert metrics["gradient_norm"].total > clip_norm
        losses.append([metrics[x].mean() for x in model.loss_weights])
    return np.array(losses), {v.path: v.numpy() for v in model.variables}


# Only `two_stage` overrides `update_with_keys`. With a size of 1 the update
# holds the kernels that tensors of real sizes get.
@pytest.mark.parametrize(
    ("name", "min_size"),
    [
        ("electra", xla_kernels.MIN_SIZE),
        ("two_stage", xla_kernels.MIN_SIZE),
        ("electra", 1),
        ("coco_lm", 1),
    ],
)
def test_a_whole_update_compiled_with_xla_learns_what_a_plain_one_does(
    monkeypatch, name, min_size
):
    expected_losses, expected = _train(name)
    monkeypatch.setattr(xla_kernels, "MIN_SIZE", min_size)
    losses, weights = _train(name, jit_compile=True)
    np.testing.assert_allclose(losses, expected_losses, atol=_TOLERANCE)
    assert weights.keys() == expected.keys()
    for path, value in weights.items():
        np.testing.assert_allclose(
            value, expected[path], atol=_TOLERANCE, err_msg=path
        )
