"""Warnings before a run: a warm-up too long."""

import pytest
import tiny

from electra_tf.pretrain import run_checks


@pytest.mark.parametrize(
    ("leaves", "is_warned"),
    [
        ({"num_warmup_steps": 19}, False),
        ({"num_warmup_steps": 20}, True),
        (tiny.TWO_STAGE | {"num_warmup_steps": 9}, False),
        (tiny.TWO_STAGE | {"num_warmup_steps": 10}, True),
        (tiny.TWO_STAGE | {"num_warmup_steps": 5, "generator_steps": 15}, True),
    ],
)
def test_a_warm_up_as_long_as_a_stage_gets_a_warning(capsys, leaves, is_warned):
    run_checks.warn_of_warmup(tiny.config(num_train_steps=20, **leaves))
    assert ("--num_warmup_steps" in capsys.readouterr().err) == is_warned
