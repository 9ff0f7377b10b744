import dataclasses
import math
import re

import pytest

from electra_tf.util.config_fields import Checked, bounded
from electra_tf.util.errors import UserError


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        ("at least 2", (2, 3.5), (1, 1.9, math.inf)),
        ("positive", (1e-9, 7), (0, -1, math.inf)),
        ("in (0, 1)", (0.1, 0.9), (0, 1)),
        ("in (0, 1]", (0.1, 1), (0, 1.1)),
        ("in [0, 1)", (0, 0.9), (-0.1, 1)),
        ("in [0, 1]", (0, 1), (-0.1, 1.1)),
    ],
)
def test_a_bounded_field_is_none_or_within_its_bounds(bounds, inside, outside):
    @dataclasses.dataclass(frozen=True)
    class Config(Checked):
        x: float | None = bounded(bounds, None)

    for value in (None, *inside):
        assert Config(value).x == value
    for value in (*outside, math.nan, "1"):
        with pytest.raises(UserError, match=re.escape(f"`x` must be {bounds}")):
            Config(value)
