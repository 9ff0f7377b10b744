"""Fusion of an encoder's operations by TensorFlow's graph optimizer."""

import collections

import pytest
import tensorflow as tf
import tiny
from tensorflow.python.eager import context

IDS = [tf.TensorSpec([None, None], tf.int32)] * 3


@pytest.fixture(autouse=True)
def _optimizer():
    """Enables the optimizer, which a strategy of several CPUs disables."""
    before = tf.config.optimizer.get_experimental_options()
    name = "disable_meta_optimizer"
    tf.config.optimizer.set_experimental_options({name: False})
    yield
    tf.config.optimizer.set_experimental_options(
        {name: before.get(name, False)}
    )


def _operations(function, arguments):
    """Counts the operations that TensorFlow runs for a call."""
    context.enable_run_metadata()
    try:
        function(*arguments)
        metadata = context.export_run_metadata()
    finally:
        context.disable_run_metadata()
    nodes = [node for g in metadata.partition_graphs for node in g.node]
    return collections.Counter(node.op for node in nodes)


def test_onednn_fuses_the_blocks_of_an_encoder():
    model = tiny.encoder()
    function = tf.function(
        lambda *x: model(*x).sequence_output,
        input_signature=IDS,
        autograph=False,
    )
    counts = _operations(function, tiny.batch(2, 30))
    if not any(name.startswith("_Mkl") for name in counts):
        pytest.skip("This build of TensorFlow has no oneDNN.")
    num_blocks = tiny.BERT.num_hidden_layers
    assert counts["_MklFusedBatchMatMulV2"] == num_blocks
    assert counts["_MklNativeFusedMatMul"] == 4 * num_blocks + 1
    assert counts["Erf"] == counts["BiasAdd"] == 0
