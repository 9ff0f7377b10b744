"""Graphs are freed with the custom gradients that TensorFlow keeps."""

import gc
import weakref

import pytest
import tensorflow as tf

from electra_tf.training import gradient_registry


@tf.custom_gradient
def _tripled(x):
    return x * 1.0, lambda dy: 3.0 * dy


def _traced_graph():
    """Traces a gradient; returns its value and a weak reference to its graph.

    Nothing else references the function.
    """

    @tf.function(autograph=False)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = _tripled(x)
        return tape.gradient(y, x)

    graph = gradient.get_concrete_function(tf.constant(1.0)).graph
    return float(gradient(tf.constant(1.0))), weakref.ref(graph)


def test_a_graph_with_a_custom_gradient_is_freed():
    before = gradient_registry.custom_gradients()
    with gradient_registry.freed_graphs():
        value, graph = _traced_graph()
        gc.collect()
        assert graph() is not None  # TensorFlow keeps it
    assert value == 3.0
    assert graph() is None
    assert gradient_registry.custom_gradients() == before


def test_gradients_from_before_stay_also_after_an_error():
    _traced_graph()
    before = gradient_registry.custom_gradients()
    with pytest.raises(KeyError), gradient_registry.freed_graphs():
        _traced_graph()
        raise KeyError
    assert before and gradient_registry.custom_gradients() == before
