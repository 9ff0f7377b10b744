import keras
import pytest

from electra_tf.util import dtype_policies


def test_scope_sets_the_policy_and_restores_it_after_an_error():
    with pytest.raises(KeyError), dtype_policies.scope("mixed_float16"):
        layer = keras.layers.Dense(1)
        raise KeyError
    assert layer.dtype_policy.name == "mixed_float16"
    assert keras.layers.Dense(1).dtype_policy.name == "float32"
