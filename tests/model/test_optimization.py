"""Updates and schedules against their formulas."""

import contextlib
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import optimization, schedules

PATHS = [
    "electra/embeddings/word_embeddings",
    "electra/embeddings_project/kernel",
    "electra/encoder/layer_0/output/dense/kernel",
    "electra/encoder/layer_10/output/dense/kernel",
    "electra/encoder/layer_11/attention/self/key/bias",
    "task_specific/cola/dense/kernel",
]


def test_rates_fall_with_depth_below_the_head():
    rates = optimization.layerwise_rates(PATHS, 0.8, 12)
    depths = np.array([13, 13, 12, 2, 1, 0])
    np.testing.assert_allclose(list(rates.values()), 0.8**depths)
    assert list(rates) == PATHS


def test_original_clip_norm_counts_each_lookup_of_a_word():
    with keras.name_scope("electra"):
        table = keras.Variable(np.zeros((4, 2)), name="word_embeddings")
        other = keras.Variable(np.zeros(2), name="bias")
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "f")
    gradients = [
        tf.IndexedSlices(tf.constant(rows), tf.constant([1, 1, 2]), [4, 2]),
        tf.constant([7.0, 8.0]),
    ]
    dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
    lookups = optimization.lookup_squares([table, other], gradients)
    norms = [
        optimization.global_norm([table, other], dense, given)
        for given in (lookups, {})
    ]
    summed = [[4.0, 6.0], [5.0, 6.0], [7.0, 8.0]]
    np.testing.assert_allclose(norms[0], np.sqrt((rows**2).sum() + 113))
    np.testing.assert_allclose(norms[1], np.linalg.norm(summed), rtol=1e-6)


def _variable(path, value):
    *scopes, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        return keras.Variable(value, dtype="float32", name=name)


def test_updates_are_adam_without_bias_correction():
    schedule = schedules.WarmupPolynomialDecay(0.1, 10, 2)
    optimizer = optimization.AdamWeightDecayOptimizer(schedule, 0.3, 0.9, 0.99)
    paths = {"a/kernel": 0.3, "a/bias": 0.0, "LayerNorm/gamma": 0.0}
    variables = [_variable(path, [1.0, -2.0]) for path in paths]
    optimizer.build(variables)
    rng = np.random.default_rng(0)
    w, m, v = np.array([[1.0, -2.0]] * 3), 0.0, 0.0
    for step in range(4):
        g = rng.normal(size=(3, 2)).astype(np.float32)
        optimizer.apply([tf.constant(x) for x in g])
        rate = 0.1 * (1 - step / 10) * min(1, step / 2)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        decay = np.array([*paths.values()])[:, np.newaxis]
        w = w - rate * (m / (np.sqrt(v) + 1e-6) + decay * w)
    np.testing.assert_allclose([x.numpy() for x in variables], w, rtol=1e-5)
    assert int(optimizer.iterations) == 4


def _orthogonal(x):
    """Applies the iteration's polynomial to the singular values alone."""
    u, values, v = np.linalg.svd(x, full_matrices=False)
    values = values / np.linalg.norm(x)
    for _ in range(5):
        values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
    return u * values @ v


def test_muon_takes_orthogonal_steps_with_kernels_of_blocks():
    optimizer = optimization.MuonOptimizer(0.1, 0.3)
    block, rng = "electra/encoder/layer_0", np.random.default_rng(0)
    shapes = {f"{block}/a/kernel": (3, 5), f"{block}/b/kernel": (5, 3)}
    variables = [
        _variable(path, rng.normal(size=shape))
        for path, shape in {**shapes, "g/kernel": (3, 5)}.items()
    ]
    optimizer.build(variables)
    weights, means = [v.numpy().astype(float) for v in variables], [0.0, 0.0]
    for _ in range(3):
        gradients = [rng.normal(size=v.shape).astype("f") for v in variables]
        optimizer.apply_reduced([tf.constant(g) for g in gradients])
        for i in range(2):
            g = 0.05 * gradients[i].astype(float)
            means[i] = 0.95 * means[i] + g
            step = 0.2 * 5**0.5 * _orthogonal(0.95 * means[i] + g)
            weights[i] -= 0.1 * (step + 0.3 * weights[i])
    for variable, weight in zip(variables[:2], weights[:2], strict=True):
        np.testing.assert_allclose(variable.numpy(), weight, rtol=1e-4)
    for _, mean, square in list(optimizer.slots())[:2]:
        assert mean.numpy().any() and not square.numpy().any()
    assert optimizer.squares[2].numpy().all()  # Adam's


def test_decay_depends_on_the_module_and_not_on_the_name_of_a_task():
    paths = {
        "electra/encoder/layer_0/output/dense/kernel": True,
        "task_specific/bias_detection/dense/kernel": True,
        "task_specific/bias_detection/dense/bias": False,
        "task_specific/LayerNorm/dense/kernel": True,
        "electra/embeddings/LayerNorm/gamma": False,
        "layer_norm_1/beta": False,
        "generator_predictions/output_bias": False,
    }
    variables = [_variable(path, [1.0]) for path in paths]
    optimizer = optimization.AdamWeightDecayOptimizer(0.1, 0.5)
    optimizer.build(variables)
    optimizer.apply_reduced([tf.zeros([1])] * len(paths))
    assert {v.path: bool(v.numpy() < 1) for v in variables} == paths


@pytest.mark.parametrize("warmup", [0, 4])
@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_rate_is_warmup_times_decay(warmup, power):
    schedule = schedules.WarmupPolynomialDecay(0.5, 12, warmup, power)
    steps = np.arange(15)
    expected = 0.5 * (1 - np.minimum(steps, 12) / 12) ** power
    if warmup:
        expected *= np.minimum(1, steps / warmup)
    found = schedule(tf.constant(steps))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("beta_2", [0.0, 0.98, 0.999])
@pytest.mark.parametrize(
    ("first", "last"), [(5, 5), (5, 6), (0, 40), (300, 1100)]
)
def test_risen_steps_is_the_root_of_adams_mean_of_squared_weights(
    first, last, beta_2
):
    steps, means = np.arange(2000), [0.0]
    weights = np.clip((steps - first) / max(last - first, 1), 0, 1)
    if first == last:
        weights = steps >= first
    for weight in weights:
        means.append(beta_2 * means[-1] + (1 - beta_2) * weight**2)
    found = schedules.RisenSteps(first, last, beta_2)(tf.range(2000))
    np.testing.assert_allclose(found, np.sqrt(means[1:]), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "schedule",
    [
        schedules.WarmupPolynomialDecay(0.5, 12, 4, 0.5, ahead=1),
        schedules.Gate(3, False, rate=0.5),
        schedules.RisenSteps(2, 9, 0.9),
        schedules.TwoSchedules(
            schedules.WarmupPolynomialDecay(0.5, 7, 2),
            schedules.WarmupPolynomialDecay(0.25, 5, 0),
            7,
        ),
    ],
)
def test_a_saved_schedule_has_the_same_rates(schedule):
    config = json.dumps(keras.saving.serialize_keras_object(schedule))
    restored = keras.saving.deserialize_keras_object(json.loads(config))
    for step in range(13):
        assert float(restored(step)) == float(schedule(step))
