"""Checks of the configuration of an analysis."""

import pytest
from analysis_configs import config

from electra_tf.util.errors import UserError


@pytest.mark.parametrize(
    ("what", "fields", "readers"),
    [
        ("rerank", {"words": ("a",)}, "representations"),
        ("errors", {"twin": "m"}, "acceptability, copies, prompts"),
        ("pos_bias", {"dev": ("d",)}, "acceptability, calibration, copies"),
        ("minimal_pairs", {"write_calibration": True}, "calibration"),
        ("calibration", {"scores": ("mlm",)}, "errors, minimal_pairs"),
        ("representations", {"generator": "m"}, "calibration, errors"),
    ],
)
def test_a_setting_that_the_analysis_does_not_read_is_refused(
    what, fields, readers
):
    (name,) = fields
    problem = f"`{name}` is read only by --what={readers}.*Leave --{name} out"
    with pytest.raises(UserError, match=problem):
        config(what=what, **fields)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"what": ""}, "`what` must name an analysis.*Set --what"),
        ({"what": "rank"}, "`what` must be one of .*rerank"),
        ({"scores": ("mlm", "mlm")}, "each score once"),
        ({"seed": -1}, "`seed` must be at least 0"),
        (
            {"what": "prompts", "dev": ("d",)},
            "Set --shots, or leave --dev out",
        ),
        (
            {
                "what": "calibration",
                "write_calibration": True,
                "all_checkpoints": True,
            },
            "`write_calibration` must be given a single checkpoint",
        ),
    ],
)
def test_invalid_and_contradictory_settings_are_refused(fields, problem):
    with pytest.raises(UserError, match=problem):
        config(**fields)
