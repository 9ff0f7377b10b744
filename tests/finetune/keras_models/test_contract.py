"""Contract of every Keras model with a head."""

import typing

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import replicas

import electra_tf
from electra_tf.finetune.qa.qa_heads import SCORER_COLUMNS
from electra_tf.util import seeds

TEXTS = ["the good film is very", "it was a bad plot the plot"] * 8
OTHERS = ["a plot", "the film was it"] * 8
CONTEXTS = ["the good film is very", "it was a bad film " * 3] * 8


class Case(typing.NamedTuple):
    """Arguments of a model, its data, and when it has learned them."""

    arguments: dict
    x: typing.Any
    y: typing.Any
    same: typing.Any  # x in another form
    metric: str
    is_perfect: typing.Callable  # of the metric after `epochs`
    epochs: int = 6


CASES = {
    "ElectraClassifier": Case(
        {"labels": ("bad", "good")},
        (TEXTS, OTHERS),
        ["good", "bad"] * 8,
        list(zip(TEXTS, OTHERS, strict=True)),
        "accuracy",
        lambda x: x == 1,
    ),
    "ElectraRegressor": Case(
        {"value_range": (1, 5)},
        TEXTS,
        [5, 1.5] * 8,
        np.array(TEXTS, object),
        "mae",
        lambda x: x < 1,
        epochs=20,
    ),
    "ElectraTagger": Case(
        {"labels": ("THE", "WORD"), "max_seq_length": 8},
        [text.split() for text in TEXTS],
        [["THE" if w == "the" else "WORD" for w in x.split()] for x in TEXTS],
        np.array([np.array(x.split()) for x in TEXTS], object),
        "accuracy",
        lambda x: x == 1,
    ),
    "ElectraQA": Case(
        {"max_seq_length": 20, "qa": {"beam_size": 4}},
        (OTHERS, CONTEXTS),
        [(text.index("film"), "film") for text in CONTEXTS[:-1]] + [None],
        list(zip(OTHERS, CONTEXTS, strict=True)),
        "loss",
        lambda x: x < 2,
    ),
}


BATCH_SIZE, RATE = 8, 1e-2


def _model(name, path, **arguments):
    cls = getattr(electra_tf, name)
    with seeds.seed_initializers(0):
        return cls.from_checkpoint(path, **CASES[name].arguments | arguments)


def _fit(model, case, epochs, *, run_eagerly=True, **arguments):
    """Trains, eagerly by default, as compiling takes seconds."""
    optimizer = model.make_optimizer(RATE, layerwise_lr_decay=1.0)
    model.compile(optimizer, run_eagerly=run_eagerly)
    return model.fit(
        case.x,
        case.y,
        batch_size=BATCH_SIZE,
        epochs=epochs,
        verbose=0,
        **arguments,
    ).history


def _quick(*names):
    """Returns all models, marked as slow unless named."""
    slow = pytest.mark.slow
    return [
        name if name in names else pytest.param(name, marks=slow)
        for name in CASES
    ]


# A regressor differs from a classifier only by its head, and QA takes longest.
@pytest.fixture(
    scope="module", params=_quick("ElectraClassifier", "ElectraTagger")
)
def trained(request, path):
    case = CASES[request.param]
    model = _model(request.param, path)
    history = _fit(
        model,
        case,
        case.epochs,
        run_eagerly=request.param != "ElectraClassifier",
        validation_data=(case.x, case.y),
        validation_freq=case.epochs,
    )
    return case, model, history


def _assert_equal(found, expected):
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
    pairs = zip(*map(keras.tree.flatten, (found, expected)), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def _assert_same_optimizer(model, other):
    pairs = zip(
        model.optimizer.variables, other.optimizer.variables, strict=True
    )
    assert all((mine.numpy() == theirs.numpy()).all() for mine, theirs in pairs)


def _trained(*names):
    """Marks a test as slow for all models that are not named."""
    return pytest.mark.parametrize("trained", _quick(*names), indirect=True)


def test_a_model_learns_and_evaluate_agrees_with_validation(trained):
    case, model, history = trained
    assert history["loss"][-1] < 0.6 * history["loss"][0]
    batches = -(-len(list(model.rows(case.x))) // BATCH_SIZE)
    assert model.optimizer.get_config()["learning_rate"]["config"] == {
        "learning_rate": RATE,
        "warmup_proportion": 0.1,
        "num_train_steps": case.epochs * batches,
    }
    assert case.is_perfect(history[f"val_{case.metric}"][-1])
    scores = model.evaluate(case.x, case.y, verbose=0, return_dict=True)
    for name, value in scores.items():
        assert value == pytest.approx(history[f"val_{name}"][-1], rel=1e-4)


def test_a_model_is_saved_and_loaded_in_safe_mode(trained, tmp_path):
    case, model, _ = trained
    file = tmp_path / "model.keras"
    model.save(file)
    again = keras.saving.load_model(file, safe_mode=True)
    assert again.get_config() == model.get_config()
    assert again.vocabulary == model.vocabulary
    _assert_equal(
        again.predict(case.x, verbose=0), model.predict(case.x, verbose=0)
    )
    _assert_same_optimizer(again, model)
    scores = model.evaluate(case.x, case.y, verbose=0)
    assert again.evaluate(case.x, case.y, verbose=0) == pytest.approx(scores)


@_trained("ElectraClassifier", "ElectraTagger")
def test_outputs_do_not_depend_on_batch_size_or_form_of_input(trained):
    case, model, _ = trained
    expected = model.predict(case.x, verbose=0)
    _assert_equal(model.predict(case.x, batch_size=3, verbose=0), expected)
    _assert_equal(model.predict(case.same, verbose=0), expected)
    data = model.dataset(case.x, case.y, batch_size=5)
    scores = model.evaluate(data, verbose=0, return_dict=True)
    others = model.evaluate(case.x, case.y, verbose=0, return_dict=True)
    for name, value in scores.items():
        assert value == pytest.approx(others[name], rel=1e-4, abs=1e-6)


@_trained("ElectraClassifier", "ElectraTagger")
def test_sample_weights_multiply_losses(trained):
    case, model, _ = trained
    odd = (_part(case.x, slice(1, None, 2)), case.y[1::2])
    sums = []
    for x, y, weights in (
        (case.x, case.y, np.array([0.0, 2.0] * 8)),
        (*odd, None),
        (case.x, case.y, None),
    ):
        scores = model.evaluate(
            x, y, sample_weight=weights, verbose=0, return_dict=True
        )
        sums.append(scores["loss"] * len(list(model.rows(x))))
    assert sums[0] == pytest.approx(2 * sums[1], rel=1e-4)
    assert sums[0] != pytest.approx(sums[2], rel=1e-3)


def _part(x, rows):
    return tuple(part[rows] for part in x) if type(x) is tuple else x[rows]


@_trained("ElectraClassifier")
def test_mixed_precision_learns_with_float32_weights_and_outputs(
    path, trained, tmp_path, products_in_bfloat16
):
    case, other, _ = trained
    model = _model(type(other).__name__, path, dtype="mixed_bfloat16")
    assert {v.dtype for v in model.trainable_weights} == {"float32"}
    history = _fit(model, case, epochs=2)
    assert history["loss"][-1] < history["loss"][0]
    few = _part(case.x, slice(4))
    outputs = model.predict(few, verbose=0)
    dtypes = {x.dtype for x in keras.tree.flatten(outputs)}
    assert dtypes - {np.dtype("int32")} == {np.dtype("float32")}
    model.save(tmp_path / "mixed.keras")
    again = keras.saving.load_model(tmp_path / "mixed.keras")
    _assert_equal(again.predict(few, verbose=0), outputs)


@_trained("ElectraClassifier")
def test_frozen_weights_keep_their_bits_and_stay_frozen_in_files(
    path, trained, tmp_path
):
    case, other, _ = trained
    model = _model(type(other).__name__, path)
    before = {v.path: v.numpy() for v in model.encoder.variables}
    count = len(model.trainable_variables)
    model.freeze(0)
    assert all("/layer_0/" in v.path for v in model.encoder.trainable_variables)
    model.unfreeze()
    assert len(model.trainable_variables) == count
    model.freeze()
    assert model.trainable_variables == model.head.trainable_variables
    head = [v.numpy() for v in model.head.variables]
    few = case._replace(x=_part(case.x, slice(4)), y=case.y[:4])
    _fit(model, few, epochs=2)
    for variable in model.encoder.variables:
        np.testing.assert_array_equal(variable.numpy(), before[variable.path])
    for variable, old in zip(model.head.variables, head, strict=True):
        assert (variable.numpy() != old).any()
    model.save(tmp_path / "frozen.keras")
    again = keras.saving.load_model(tmp_path / "frozen.keras")
    for one in (again, keras.models.clone_model(model)):
        names = [v.path for v in one.trainable_variables]
        assert names == [v.path for v in model.head.trainable_variables]
    _assert_same_optimizer(again, model)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_replicas_learn_and_evaluate_as_one_device(path, name):
    case = CASES[name]
    with replicas(2).scope():
        shared = _model(name, path)
        shared.compile(keras.optimizers.SGD(0.1))
    alone = _model(name, path)
    alone.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    some = (_part(case.x, slice(8)), case.y[:8])
    weights = np.linspace(0.5, 2, 8)
    results = []
    for model in (shared, alone):
        history = model.fit(
            *some,
            sample_weight=weights,
            validation_data=some,
            batch_size=4,
            epochs=3,
            shuffle=False,
            verbose=0,
        ).history
        scores = model.evaluate(*some, batch_size=8, verbose=0)
        results.append([*history.values(), np.ravel(scores)])
    _assert_equal(*results)
    _assert_equal(shared.get_weights(), alone.get_weights())


@_trained("ElectraClassifier")
def test_an_export_answers_as_the_model(trained, tmp_path):
    case, model, _ = trained
    model.export(tmp_path / "saved", verbose=False)
    inputs = next(iter(model.dataset(case.x, batch_size=3)))
    network = tf.saved_model.load(str(tmp_path / "saved"))
    signature = network.signatures["serving_default"]
    names = set(signature.structured_input_signature[1])
    assert names == {*model.SERVED}
    served = {name: inputs[name] for name in names}
    expected = model(inputs)
    if isinstance(expected, dict):  # without what only the scorer needs
        for name in ("end_logits", *SCORER_COLUMNS):
            expected.pop(name)
    else:
        expected = {"output_0": expected}
    found = signature(**served)
    _assert_equal(found, expected)
    _assert_equal(
        keras.tree.flatten(network.serve(served)), keras.tree.flatten(found)
    )


@_trained("ElectraClassifier", "ElectraTagger")
def test_dropout_differs_from_call_to_call(trained):
    case, model, _ = trained
    inputs = next(iter(model.dataset(case.x)))
    first, second = (model(inputs, training=True) for _ in range(2))
    pairs = zip(*map(keras.tree.flatten, (first, second)), strict=True)
    assert any((x.numpy() != y.numpy()).any() for x, y in pairs)
    _assert_equal(model(inputs), model(inputs))
