import warnings

import pytest
import tensorflow as tf
import tiny

from electra_tf.pretrain import fit_checks
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util.errors import UserError

DATA = tf.data.Dataset.from_tensor_slices(tiny.batch()).batch(4)
"""Two batches, whose size is not known."""


@pytest.mark.parametrize(
    ("num_warmup_steps", "num_train_steps", "arguments", "is_warned"),
    [
        (1, 2, {}, False),
        (2, 2, {}, True),  # the rate only rises
        (1, 3, {"epochs": 2}, True),
        (1, 3, {"epochs": 3, "initial_epoch": 2}, False),
        (1, 3, {"steps_per_epoch": 4}, True),
    ],
)
def test_a_schedule_must_peak_and_end_with_fit(
    num_warmup_steps, num_train_steps, arguments, is_warned
):
    config = tiny.config(
        num_warmup_steps=num_warmup_steps, num_train_steps=num_train_steps
    )
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fit_checks.warn_of_schedule(DATA, arguments, config, first_step=0)
    assert len(found) == is_warned


@pytest.mark.parametrize("shape", [(None, None), None])
def test_rows_must_have_a_known_length(shape):
    spec = tf.TensorSpec(shape, tf.int32)
    data = tf.data.Dataset.from_generator(
        lambda: iter([]), output_signature=Inputs(spec, spec, spec)
    )
    with pytest.raises(UserError, match=r'padded_batch\(n, .*ids": \[16]}'):
        fit_checks.check_division(
            data, tiny.config(), num_replicas=1, group_size=1
        )


def test_rows_that_stay_together_need_batches_of_a_known_size():
    with pytest.raises(UserError, match="multiple of 2 rows.*drop_remainder"):
        fit_checks.check_division(
            DATA, tiny.config(), num_replicas=1, group_size=2
        )
