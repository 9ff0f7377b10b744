"""What keeps an accelerator waiting stands in no update that can do without.

A host callback stops it at every update, top-k over the vocabulary sorts, and
a loop is a round trip for each of its rounds. `NEEDED` lists who needs which:
a new objective, strategy or choice that does is added there knowingly. What a
TPU cannot run at all, strings and sizes that depend on values, nobody needs.
"""

import pytest
import tensorflow as tf
import tiny

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.masking_strategies import STRATEGIES
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
    **{x: {"masking_strategy": x} for x in STRATEGIES},
    "micro-batches": {"gradient_accumulation_steps": 2},
    "top_k": {"top_k": 20},
}
QUICK = ("electra", "mlm", "span")
"""Cases of the default suite; to trace an update takes seconds."""
NEEDED = {
    # Words to choose among, at every token, in blocks that fit into memory.
    "mc_bert": {LOOP, TOP_K},
    "teams": {TOP_K},
    # A softmax at every token, in blocks.
    "electra of two towers": {LOOP},
    "electric": {LOOP},
    "script": {LOOP},
    # What is sampled from.
    "electra of a unigram generator": {TOP_K},
    "top_k": {TOP_K},
    # Words are taken until no other fits, in two or three rounds.
    "electra of masked spans": {LOOP},
    "ngram": {LOOP},
    "span": {LOOP},
    "whole_word": {LOOP},
    "micro-batches": {LOOP},
}
"""Case -> what its update holds; all others hold nothing of it."""


def _operations(graph):
    """Yields the operations of a graph and of all functions that it calls."""
    yield from graph.get_operations()
    for function in graph._functions.values():
        yield from _operations(function.graph)


def _costly(update, inputs, vocab_size):
    """Returns what a traced update holds that an accelerator waits for."""
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


def test_what_is_looked_for_is_found_in_inner_functions():
    @tf.function
    def inner(x):
        x = tf.while_loop(
            lambda x: tf.reduce_all(x > 0),
            lambda x: (x - tf.math.top_k(x, 1).values,),
            (x,),
        )[0]
        return tf.numpy_function(lambda x: x, [x], tf.float32)

    found = _costly(lambda x: inner(x), tf.ones([2, 60]), 60)
    assert found == {CALLBACK, LOOP, TOP_K}


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        (tf.strings.as_string, STRING),
        (tf.where, DYNAMIC),
        (lambda x: tf.boolean_mask(x, x > 0), DYNAMIC),
        (lambda x: tf.unique(x[0])[0], DYNAMIC),
        (lambda x: tf.dynamic_partition(x, tf.cast(x, tf.int32), 2), DYNAMIC),
    ],
)
def test_what_no_tpu_runs_is_found_in_inner_functions(what, kind):
    inner = tf.function(what)
    assert _costly(lambda x: inner(x), tf.ones([2, 60]), 60) == {kind}


def test_the_default_update_keeps_no_accelerator_waiting():
    """But for its number of layers, which are alike."""
    config = config_fields.build(
        PretrainingConfig,
        {"data_dir": "unused", "model_name": "default", "num_hidden_layers": 1},
    )
    words = (f"w{i}" for i in range(30522 - len(tiny.SPECIALS)))
    model = tiny.model(config, Vocabulary((*tiny.SPECIALS, *words)))
    inputs = tiny.batch(
        config.training.train_batch_size, config.corpus.max_seq_length
    )
    assert not _costly(model.update, inputs, model.vocabulary.size)


@pytest.mark.parametrize(
    "case",
    [
        case if case in QUICK else pytest.param(case, marks=pytest.mark.slow)
        for case in CASES
    ],
)
def test_updates_hold_what_is_listed_and_nothing_else_that_is_slow(case):
    config = tiny.config(num_hidden_layers=1, **CASES[case])
    model = tiny.model(config, tiny.COUNTED)
    found = _costly(model.update, tiny.batch(), tiny.COUNTED.size)
    assert found == NEEDED.get(case, set())
