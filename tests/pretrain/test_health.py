"""The monitor warns of what a healthy run does not show, and of no more."""

import pytest
import tiny

from electra_tf.pretrain import health

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
