"""No update holds an operation that stalls an accelerator without need.

A host callback stops it at every update, top-k over the vocabulary sorts, and
a loop costs a round trip for each iteration. `NEEDED` lists the cases that need
one; a new objective, strategy or option is added there deliberately. No case
needs what a TPU cannot run: strings, and sizes that depend on values.
"""

import pytest
import tensorflow as tf
import tiny

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.pretrain_helpers import STRATEGIES
from electra_tf.util import config_fields

CALLBACK, LOOP, TOP_K = "host callback", "loop", "top-k over the vocabulary"
DYNAMIC, STRING = "a size that depends on values", "strings"
KINDS = {
    "EagerPyFunc": CALLBACK,
    "PyFunc": CALLBACK,
    "PyFuncStateless": CALLBACK,
    "StatelessWhile": LOOP,
    "While": LOOP,
    # XLA compiles none of these for a TPU: its tensors have known sizes.
    "DynamicPartition": DYNAMIC,
    "ListDiff": DYNAMIC,
    "Unique": DYNAMIC,
    "UniqueV2": DYNAMIC,
    "UniqueWithCounts": DYNAMIC,
    "UniqueWithCountsV2": DYNAMIC,
    "Where": DYNAMIC,
}
CASES = {
    **tiny.VARIANTS,
    **{x: {"masking_strategy": x, "objective": "mlm"} for x in STRATEGIES},
    "micro-batches": {"gradient_accumulation_steps": 2},
    "top_k": {"top_k": 20},
}
QUICK = "span"
"""The case of the default suite, beside the default update's."""
NEEDED = {
    # Candidates for every token, found in blocks that fit into memory.
    "mc_bert": {LOOP, TOP_K},
    "teams": {TOP_K},
    # A softmax at every token, in blocks.
    "electra of two towers": {LOOP},
    "electric": {LOOP},
    "script": {LOOP},
    # The words to sample from.
    "electra of a unigram generator": {TOP_K},
    "top_k": {TOP_K},
    # Words are chosen until no other fits, in two or three iterations.
    "electra of masked spans": {LOOP},
    "ngram": {LOOP},
    "span": {LOOP},
    "whole_word": {LOOP},
    "micro-batches": {LOOP},
}
"""Case -> costly operations of its update; none if it is not listed."""


def _operations(graph):
    """Yields the operations of a graph and of all functions that it calls."""
    yield from graph.get_operations()
    for function in graph._functions.values():
        yield from _operations(function.graph)


def _costly_kinds(update, inputs, vocab_size):
    """Returns the kinds of costly operations in a traced update."""
    traced = tf.function(update, autograph=False).get_concrete_function(inputs)
    found = set()
    for operation in _operations(traced.graph):
        if operation.type in KINDS:
            found.add(KINDS[operation.type])
        if operation.type == "TopKV2":
            width = operation.inputs[0].shape[-1]
            found |= {TOP_K} if width in (None, vocab_size) else set()
        tensors = (*operation.inputs, *operation.outputs)
        if any(tensor.dtype == tf.string for tensor in tensors):
            found.add(STRING)
    return found


def test_costly_operations_are_found_in_inner_functions():
    @tf.function
    def inner(x):
        x = tf.while_loop(
            lambda x: tf.reduce_all(x > 0),
            lambda x: (x - tf.math.top_k(x, 1).values,),
            (x,),
        )[0]
        return tf.numpy_function(lambda x: x, [x], tf.float32)

    found = _costly_kinds(lambda x: inner(x), tf.ones([2, 60]), 60)
    assert found == {CALLBACK, LOOP, TOP_K}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (tf.strings.as_string, STRING),
        (tf.where, DYNAMIC),
        (lambda x: tf.boolean_mask(x, x > 0), DYNAMIC),
        (lambda x: tf.unique(x[0])[0], DYNAMIC),
        (lambda x: tf.dynamic_partition(x, tf.cast(x, tf.int32), 2), DYNAMIC),
    ],
)
def test_operations_that_no_tpu_runs_are_found_in_inner_functions(body, kind):
    inner = tf.function(body)
    assert _costly_kinds(lambda x: inner(x), tf.ones([2, 60]), 60) == {kind}


def test_the_default_update_keeps_no_accelerator_waiting():
    """Except that it has one layer, as all layers are alike."""
    config = config_fields.build(
        PretrainingConfig,
        {"data_dir": "unused", "model_name": "default", "num_hidden_layers": 1},
    )
    words = (f"w{i}" for i in range(30522 - len(tiny.SPECIALS)))
    model = tiny.model(config, Vocabulary((*tiny.SPECIALS, *words)))
    inputs = tiny.batch(
        config.training.train_batch_size, config.corpus.max_seq_length
    )
    assert not _costly_kinds(model.update, inputs, model.vocabulary.size)


@pytest.mark.parametrize(
    "case",
    [
        case if case == QUICK else pytest.param(case, marks=pytest.mark.slow)
        for case in CASES
    ],
)
def test_updates_hold_exactly_the_listed_costly_operations(case):
    config = tiny.config(num_hidden_layers=1, **CASES[case])
    model = tiny.model(config, tiny.COUNTED)
    found = _costly_kinds(model.update, tiny.batch(), tiny.COUNTED.size)
    assert found == NEEDED.get(case, set())
