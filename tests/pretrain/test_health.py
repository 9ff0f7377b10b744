"""The monitor warns of what a healthy run does not show, and of no more."""

import pytest
import tiny

from electra_tf.pretrain import health


def monitor(**leaves):
    """Returns a monitor and the list of its warnings."""
    model = tiny.model(tiny.config(num_hidden_layers=1, **leaves), tiny.COUNTED)
    warnings = []
    return health.HealthMonitor(model, warnings.append), warnings


def watch(monitor, steps, **values):
    logs = {
        "loss": 10.0,
        "disc_loss": 0.2,
        "replaced_share": 0.1,
        "sampled_masked_lm_accuracy": 0.3,
        **values,
    }
    for step in steps:
        monitor.on_epoch_end(step, logs)


LATE = range(100, 3000, 100)


@pytest.mark.parametrize(
    ("leaves", "parts", "num_warnings"),
    [
        ({}, [([1], {"loss": 39.0}), (LATE, {})], 0),  # chance: 38.75
        ({}, [([1], {"loss": 70.0})], 1),
        ({}, [([1], {"loss": 20.0})], 1),
        ({"init_checkpoint": "x"}, [([1], {"loss": 20.0})], 0),
        ({}, [(LATE, {"disc_loss": 0.324})], 1),
        ({"objective": "electric"}, [(LATE, {"disc_loss": 0.34})], 0),
        ({"num_warmup_steps": 5000}, [([9000], {"disc_loss": 0.324})], 0),
        ({}, [([2000], {"sampled_masked_lm_accuracy": 0.7})], 1),
        # A single bad block.
        ({}, [(LATE, {}), ([3000], {"loss": 20.0}), ([3100], {})], 0),
        # Collapse.
        (
            {},
            [(LATE, {"generator_entropy": 1.0, "masked_lm_loss": 3.0})],
            0,
        ),
        (
            {},
            [(LATE, {"generator_entropy": 0.5, "masked_lm_loss": 3.0})],
            1,
        ),
        # Divergence.
        ({}, [(range(100, 900, 100), {}), (LATE, {"loss": 30.0})], 1),
        # A warning comes again after its problem cleared.
        (
            {},
            [
                (range(2000, 6000, 100), {"sampled_masked_lm_accuracy": x})
                for x in (0.9, 0.0, 0.9)
            ],
            2,
        ),
        # A discriminator whose loss begins to count late.
        (
            {"disc_weight_steps": (0, 15)},
            [(range(100, 1015, 100), {"disc_loss": 0.69})],
            0,
        ),
    ],
)
def test_problems_are_named_once(leaves, parts, num_warnings):
    watcher, warnings = monitor(**leaves)
    for steps, values in parts:
        watch(watcher, steps, **values)
    assert len(warnings) == num_warnings, warnings


def test_means_restart_in_a_second_stage():
    leaves = tiny.TWO_STAGE | {"num_train_steps": 10380}
    watcher, warnings = monitor(**leaves)
    watch(watcher, range(200, 5001, 200), loss=4.0)
    watch(watcher, [5200], loss=5.0)  # updates of both stages
    watch(watcher, range(5400, 6200, 200), loss=24.0)
    assert not warnings
    watch(watcher, range(6200, 7200, 200), loss=48.0)
    assert len(warnings) == 1
