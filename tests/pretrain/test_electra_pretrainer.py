"""Pre-training as a Keras model does what `run_pretraining` does."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import electra_tf
from electra_tf.model.optimization import AdamWeightDecayOptimizer
from electra_tf.pretrain import evaluation
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.training import training_utils
from electra_tf.util.errors import UserError

NUM_UPDATES = 10
LEAVES = {
    "num_hidden_layers": 1,
    "num_train_steps": NUM_UPDATES,
    "hidden_dropout_prob": 0.1,
    "initializer_range": 0.2,
    "eval_batch_size": 8,
}
ONE_NETWORK = ("mlm", "mlm_sentence")


def _dataset(num_batches=NUM_UPDATES):
    rows = [tiny.batch(seed=seed) for seed in range(num_batches)]
    stacked = Inputs(*(tf.concat(x, 0) for x in zip(*rows, strict=True)))
    return tf.data.Dataset.from_tensor_slices(stacked).batch(8)


def _make(**leaves):
    config = tiny.config(**{**LEAVES, **leaves})
    pretrainer = electra_tf.ElectraPretrainer(config, tiny.COUNTED)
    pretrainer.compile()
    return pretrainer


def _assert_same_state(found, expected):
    tiny.assert_same(tiny.arrays(found), tiny.arrays(expected))


@pytest.fixture(scope="module")
def looped():
    """Returns a model after updates by the loop, and its metrics."""
    model = tiny.model(tiny.config(**LEAVES), tiny.COUNTED)
    block = training_utils.make_block(model, tf.distribute.get_strategy())
    sums = block(iter(_dataset()), NUM_UPDATES)
    return model, training_utils.means([sums], model.loss_weights)


@pytest.fixture(scope="module")
def fitted():
    """Returns a pre-trainer after the same updates by `fit`."""
    pretrainer = _make()
    pretrainer.fit(_dataset(), validation_data=_dataset(2), verbose=0)
    return pretrainer


def test_fit_ends_with_the_bits_of_the_loop(looped, fitted):
    _assert_same_state(fitted.objective, looped[0])


def test_the_history_is_of_the_epoch_and_of_the_held_out_rows(looped, fitted):
    history = fitted.history.history
    for name, value in looped[1].items():
        assert history[name] == [pytest.approx(value)], name
    expected = evaluation.evaluate(looped[0], _dataset(2))
    for name, value in expected.items():
        assert history[f"val_{name}"] == [pytest.approx(value)], name
    assert fitted.evaluate(_dataset(2)) == expected


@pytest.mark.slow
def test_two_replicas_learn_the_same(fitted):
    with tiny.replicas(2).scope():
        mirrored = _make()
    mirrored.fit(_dataset(), verbose=0)
    found, expected = (tiny.arrays(x.objective) for x in (mirrored, fitted))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5)
    np.testing.assert_allclose(
        mirrored.predict(_dataset(1), verbose=0)["probability_replaced"],
        fitted.predict(_dataset(1), verbose=0)["probability_replaced"],
        atol=1e-4,
    )


def test_a_keras_file_holds_weights_slots_and_step(fitted, tmp_path):
    fitted.save(tmp_path / "pretrainer.keras")
    again = keras.saving.load_model(tmp_path / "pretrainer.keras")
    _assert_same_state(again.objective, fitted.objective)
    assert again.config == fitted.config
    assert again.objective.vocabulary.counts == tiny.COUNTED.counts
    assert again.evaluate(_dataset(1)) == fitted.evaluate(_dataset(1))


@pytest.fixture
def keras_float16():
    """Sets Keras' global policy to that which wraps optimizers."""
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy("float32")


def _after_two_updates():
    pretrainer = _make(num_train_steps=2, num_warmup_steps=0)
    pretrainer.compile(run_eagerly=True)
    pretrainer.fit(_dataset(2), verbose=0)
    return pretrainer.objective


def test_the_precision_is_the_configurations(request):
    expected = _after_two_updates()
    request.getfixturevalue("keras_float16")
    _assert_same_state(_after_two_updates(), expected)


def test_a_keras_file_holds_the_loss_scale(keras_float16, tmp_path):
    pretrainer = _make(precision="float16")
    pretrainer.objective.loss_scale.scale.assign(2.0**9)
    pretrainer.save(tmp_path / "pretrainer.keras")
    again = keras.saving.load_model(tmp_path / "pretrainer.keras")
    assert float(again.objective.loss_scale.scale) == 2.0**9
    _assert_same_state(again.objective, pretrainer.objective)


def test_an_optimizer_of_ones_own_is_kept(tmp_path):
    pretrainer = _make()
    pretrainer.compile(AdamWeightDecayOptimizer(0.5))
    pretrainer.save(tmp_path / "pretrainer.keras")
    again = keras.saving.load_model(tmp_path / "pretrainer.keras")
    assert float(again.optimizer.learning_rate) == 0.5


def test_predictions_are_those_of_the_main_network(fitted):
    rows = tiny.batch()
    found = fitted.predict(rows._asdict(), verbose=0)["probability_replaced"]
    expected = tf.sigmoid(fitted.objective.discriminate(rows))
    expected *= tf.cast(rows.input_mask, tf.float32)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    text = fitted(tf.constant(["w1 w2", "w3"]))["probability_replaced"]
    of_text = fitted.predict(["w1 w2", "w3"], verbose=0)
    np.testing.assert_allclose(
        of_text["probability_replaced"][:, :4], text, atol=1e-6
    )


@pytest.mark.parametrize("network", ["discriminator", "generator"])
def test_a_network_is_taken_out_with_its_weights(network, fitted):
    alone, rows = fitted.extract(network), tiny.batch()
    logits = alone(rows._asdict())["logits"]
    model = getattr(fitted.objective, f"{network}_model")
    np.testing.assert_array_equal(logits, model(rows._asdict())["logits"])
    again = type(alone).from_config(alone.get_config())
    assert again.vocabulary == tiny.VOCABULARY
    assert again.reader.max_seq_length == tiny.LENGTH


@pytest.mark.parametrize("sharing", ["embeddings", "all"])
def test_two_networks_are_trained_on(sharing, tmp_path):
    first = _make(generator_sharing=sharing, generator_hidden_size=1.0)
    parts = [first.extract(x) for x in ("generator", "discriminator")]
    second = electra_tf.ElectraPretrainer.from_networks(*parts, LEAVES)
    weights, found = (
        {v.path: v.numpy() for v in x.objective.weights}
        for x in (first, second)
    )
    tiny.assert_same(found, weights)
    with pytest.raises(UserError, match="must have its vocabulary"):
        discriminator = electra_tf.ElectraDiscriminator(parts[1].config)
        electra_tf.ElectraPretrainer.from_networks(parts[0], discriminator)


def test_a_checkpoint_is_read_by_all_others(fitted, tmp_path):
    fitted.save_checkpoint(str(tmp_path / "out"))
    rows = tiny.batch()._asdict()
    for name, cls in (
        ("discriminator", electra_tf.ElectraDiscriminator),
        ("generator", electra_tf.ElectraGenerator),
    ):
        found = cls.from_checkpoint(str(tmp_path / "out"))
        expected = fitted.extract(name)(rows)["logits"]
        np.testing.assert_array_equal(found(rows)["logits"], expected)
    backbone = electra_tf.ElectraBackbone.from_checkpoint(str(tmp_path / "out"))
    np.testing.assert_array_equal(
        backbone(rows)["sequence_output"],
        fitted.extract("discriminator")(rows)["sequence_output"],
    )


def test_texts_are_learned_from_batch_by_batch():
    pretrainer = _make()
    pretrainer.compile(run_eagerly=True)  # to trace takes longer
    seen = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(logs["loss"])
    )
    pretrainer.fit(
        ["w1 w2 w3 w4\nw5 w6 w7 w8"] * 24,
        epochs=2,
        callbacks=[callback],
        validation_data=["w1 w2 w3"],
        verbose=0,
    )
    assert len(seen) == int(pretrainer.optimizer.iterations) >= 6


def test_summary_counts_the_weights(fitted, capsys):
    fitted.summary()
    count = f"{fitted.count_params():,}"
    assert count in capsys.readouterr().out


@pytest.mark.slow
def test_it_is_exported(fitted, tmp_path):
    paths = fitted.export(str(tmp_path))
    served = tf.saved_model.load(paths[1])
    np.testing.assert_allclose(
        served.serving_default(*tiny.batch())["probability_replaced"],
        fitted(tiny.batch()._asdict())["probability_replaced"],
        atol=1e-5,
    )


@pytest.mark.slow
@pytest.mark.parametrize("variant", tiny.VARIANTS)
def test_each_objective_fits_answers_and_is_saved(variant, tmp_path):
    schedule = {"num_train_steps": 2, "num_warmup_steps": 0}
    pretrainer = _make(**tiny.VARIANTS[variant] | schedule)
    pretrainer.compile(run_eagerly=True)
    pretrainer.fit(_dataset(2), verbose=0)
    expected = pretrainer(tiny.batch()._asdict())
    pretrainer.save(tmp_path / "pretrainer.keras")
    again = keras.saving.load_model(tmp_path / "pretrainer.keras")
    _assert_same_state(again.objective, pretrainer.objective)
    for name, value in again(tiny.batch()._asdict()).items():
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"hiden_size": 16}, tiny.VOCABULARY), "flags.*hiden_size"),
        (({"hidden_size": "16"}, tiny.VOCABULARY), "hidden_size"),
        (({"packing": "original"}, tiny.VOCABULARY), "packing=original"),
    ],
)
def test_what_is_no_configuration_is_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        electra_tf.ElectraPretrainer(*arguments)


def test_another_optimizer_is_refused(fitted):
    with pytest.raises(UserError, match="AdamWeightDecay.*Received: SGD"):
        fitted.compile(keras.optimizers.SGD())


def test_batches_must_be_shared_out_as_in_the_loop():
    pretrainer = _make(gradient_accumulation_steps=4)
    texts = ["w1 w2 w3 w4 w5 w6"] * 40
    with pytest.raises(UserError, match="6 rows, 1 replicas"):
        pretrainer.fit(texts, batch_size=6, verbose=0)


def test_rows_that_stay_together_are_evaluated_together():
    pretrainer = _make(objective="coco_lm", contrast_group=8)
    rows = _dataset(2).unbatch()
    with pytest.raises(UserError, match="multiple of 8 rows"):
        pretrainer.evaluate(rows.batch(6))
    assert pretrainer.evaluate(rows.batch(16)) == pytest.approx(
        pretrainer.evaluate(rows.batch(8)), rel=1e-5
    )


def test_nothing_is_no_data(fitted):
    with pytest.raises(UserError, match="must not be empty"):
        fitted.evaluate(_dataset(1).take(0))
    with pytest.raises(UserError, match="There must be texts"):
        fitted.predict([])


def test_any_seed_will_do():
    _make(seed=2**40)


@pytest.mark.parametrize("leaves", [{"num_train_steps": 1}, {}])
def test_a_schedule_that_does_not_fit_is_told(leaves):
    pretrainer = _make(**leaves)
    pretrainer.compile(run_eagerly=True)
    with pytest.warns(UserWarning, match="ends at update 2,.*num_train_steps"):
        pretrainer.fit(_dataset(2), verbose=0)
