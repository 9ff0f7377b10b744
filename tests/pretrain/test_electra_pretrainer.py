"""`ElectraPretrainer` trains and evaluates as `run_pretraining` does."""

import dataclasses
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import electra_tf
from electra_tf.model.optimization import AdamWeightDecayOptimizer
from electra_tf.model.text_reader import TextReader
from electra_tf.pretrain import evaluation, texts
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.training import training_utils
from electra_tf.util.errors import UserError
from electra_tf.util.flags import flatten

SLOW = pytest.mark.slow
NUM_UPDATES = 10
LEAVES = {
    "num_hidden_layers": 1,
    "num_train_steps": NUM_UPDATES,
    "hidden_dropout_prob": 0.1,
    "initializer_range": 0.2,
    "eval_batch_size": 8,
}
MLM = {"objective": "mlm"}
"""The objective where any will do, as it has a single network."""


def _dataset(num_batches=NUM_UPDATES):
    rows = [tiny.batch(seed=seed) for seed in range(num_batches)]
    stacked = Inputs(*(tf.concat(x, 0) for x in zip(*rows, strict=True)))
    rows = tf.data.Dataset.from_tensor_slices(stacked)
    return rows.batch(8, drop_remainder=True)


def _make(reads_checkpoints=True, **leaves):
    config = tiny.config(**{**LEAVES, **leaves})
    pretrainer = electra_tf.ElectraPretrainer(
        config, tiny.COUNTED, reads_checkpoints=reads_checkpoints
    )
    pretrainer.compile()
    return pretrainer


def _assert_same_state(found, expected):
    tiny.assert_same(tiny.arrays(found), tiny.arrays(expected))


@pytest.fixture(scope="module")
def loop_trained():
    """Returns a model trained by the training loop, and its metrics."""
    model = tiny.model(tiny.config(**LEAVES, **MLM), tiny.COUNTED)
    block = training_utils.make_block(model, tf.distribute.get_strategy())
    sums = block(iter(_dataset()), NUM_UPDATES)
    return model, training_utils.means([sums], model.loss_weights)


@pytest.fixture(scope="module")
def fitted_mlm():
    """Returns a pre-trainer after the same updates by `fit`."""
    pretrainer = _make(**MLM)
    pretrainer.fit(_dataset(), validation_data=_dataset(2), verbose=0)
    return pretrainer


@pytest.fixture(scope="module")
def fitted():
    """Returns a pre-trainer of two networks after updates by `fit`."""
    pretrainer = _make()
    pretrainer.compile(run_eagerly=True)  # tracing takes longer
    pretrainer.fit(_dataset(), verbose=0)
    return pretrainer


def test_fit_is_bit_exact_with_the_training_loop(loop_trained, fitted_mlm):
    model, means = loop_trained
    _assert_same_state(fitted_mlm.objective, model)
    history = fitted_mlm.history.history
    for name, value in means.items():
        assert history[name] == [pytest.approx(value)], name
    expected = evaluation.evaluate(model, _dataset(2))
    for name, value in expected.items():
        assert history[f"val_{name}"] == [pytest.approx(value)], name
    assert fitted_mlm.evaluate(_dataset(2)) == expected


def test_training_starts_from_the_checkpoint_of_the_configuration(
    fitted, tmp_path
):
    fitted.save_checkpoint(tmp_path / "x")
    leaves = {"num_train_steps": NUM_UPDATES + 1}
    pretrainer = _make(init_checkpoint=str(tmp_path / "x"), **leaves)
    _assert_same_state(pretrainer.objective, fitted.objective)
    pretrainer.save(tmp_path / "pretrainer.keras")
    shutil.rmtree(tmp_path / "x")
    keras.saving.load_model(tmp_path / "pretrainer.keras")


def test_predictions_are_those_of_the_main_network(fitted):
    rows = tiny.batch()
    found = fitted.predict(rows._asdict(), verbose=0)["probability_replaced"]
    expected = tf.sigmoid(fitted.objective.discriminate(rows))
    expected *= tf.cast(rows.input_mask, tf.float32)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    text = fitted(tf.constant(["w1 w2", "w3"]))["probability_replaced"]
    predicted = fitted.predict(["w1 w2", "w3"], verbose=0)
    np.testing.assert_allclose(
        predicted["probability_replaced"][:, :4], text, atol=1e-6
    )


@pytest.mark.parametrize(
    "variant",
    [
        name if name == "electra" else pytest.param(name, marks=SLOW)
        for name in tiny.VARIANTS
    ],
)
def test_a_keras_file_holds_weights_slots_and_step(variant, tmp_path):
    schedule = {"num_train_steps": 2, "num_warmup_steps": 0}
    pretrainer = _make(False, **tiny.VARIANTS[variant] | schedule)
    pretrainer.compile(run_eagerly=True)
    pretrainer.fit(_dataset(2), verbose=0)
    pretrainer.save(tmp_path / "pretrainer.keras")
    reloaded = keras.saving.load_model(tmp_path / "pretrainer.keras")
    _assert_same_state(reloaded.objective, pretrainer.objective)
    assert reloaded.config == pretrainer.config
    assert reloaded.objective.vocabulary.counts == tiny.COUNTED.counts
    expected = pretrainer(tiny.batch()._asdict())
    for name, value in reloaded(tiny.batch()._asdict()).items():
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        # Rises in 2 updates and falls to 0 after 4, in each `fit`.
        ({}, [0, 0.375, 0.5, 0.25] * 2),
        ({"num_train_steps": 4}, [0, 0.375, 0.5, 0.25, 0, 0, 0, 0]),
    ],
)
@pytest.mark.filterwarnings("ignore:The learning rate")
def test_the_schedule_starts_anew_unless_its_length_is_given(
    flags, expected, monkeypatch
):
    values = flatten(dataclasses.asdict(tiny.config(**LEAVES, **MLM)))
    for name in ("data_dir", "model_name", "num_train_steps"):
        del values[name]
    values |= {"num_warmup_steps": 2, "learning_rate": 1.0, **flags}
    pretrainer = electra_tf.ElectraPretrainer(values, tiny.COUNTED)
    pretrainer.compile(run_eagerly=True)
    update, rates = pretrainer.objective.update, []

    def record(inputs):
        rates.append(float(pretrainer.optimizer.learning_rate))
        return update(inputs)

    monkeypatch.setattr(pretrainer.objective, "update", record)
    for _ in range(2):
        pretrainer.fit(_dataset(2), epochs=2, verbose=0)
    np.testing.assert_allclose(rates, expected)
    assert int(pretrainer.optimizer.iterations) == 8


def test_what_would_be_silently_wrong_is_refused(fitted_mlm):
    rows = tf.data.Dataset.from_tensor_slices(["w1 w2 w3"] * 40)
    grouped = _make(**tiny.VARIANTS["coco_lm"])
    clipped, used = AdamWeightDecayOptimizer(0.5, clipnorm=2.0), _make(**MLM)
    frozen = _make(**MLM)
    frozen.objective.electra.embeddings.trainable = False
    for call in (
        lambda: grouped.fit(rows.batch(8)),
        lambda: grouped.fit(rows.batch(5, drop_remainder=True)),
        lambda: fitted_mlm.fit("w1 w2"),
        lambda: fitted_mlm.fit(["", " "]),
        lambda: fitted_mlm.fit(["w1"], batch_size=4),
        lambda: fitted_mlm.evaluate(_dataset(1).take(0)),
        lambda: fitted_mlm.compile(clipped),
        lambda: fitted_mlm.compile(used.optimizer),
        lambda: frozen.fit(_dataset(1)),
        lambda: _make(drop_duplicates=True),
    ):
        with pytest.raises(UserError):
            call()


CORPUS = tiny.config().corpus
READER = TextReader(tiny.VOCABULARY, max_seq_length=tiny.LENGTH)
DOCUMENTS = ["w1 w2 w3\nw4 w5", "w6 w7 w8 " * 10, "", "w9"]
WORDS = [6, 7, 8, 9, 10] + [11, 12, 13] * 10 + [14]


@pytest.mark.parametrize("packing", ["carry", "packed"])
def test_no_word_is_lost(packing):
    config = dataclasses.replace(CORPUS, packing=packing)
    rows = texts.pack(DOCUMENTS, config, READER)
    ids = rows.input_ids
    assert sorted(ids[ids > tiny.VOCABULARY.mask_id]) == sorted(WORDS)
    assert rows.input_ids.shape[1] == tiny.LENGTH
    assert (rows.input_mask.max() > 1) == (packing == "packed")


def _batches(rows):
    return tf.data.Dataset.from_tensor_slices(rows).batch(4)


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: Inputs(*(np.array(x, np.int64) for x in rows)),
        lambda rows: rows._asdict(),
        lambda rows: _batches(rows),
        lambda rows: _batches((rows,)),
        lambda rows: _batches(rows._asdict()),
    ],
)
def test_rows_in_any_container_give_the_same_batches(make):
    rows = tiny.batch(8)
    batches = texts.batches(make(rows), CORPUS, READER, batch_size=4)
    for parts, expected in zip(zip(*batches, strict=True), rows, strict=True):
        found = tf.concat(parts, 0)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == tf.int32
