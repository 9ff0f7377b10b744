"""`ElectraPretrainer` trains and evaluates as `run_pretraining` does."""

import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import electra_tf
from electra_tf.model.networks import EncoderWithHead
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
    _assert_same_state(fitted_mlm.objective, loop_trained[0])


def test_history_holds_the_means_of_the_epoch_and_of_validation(
    loop_trained, fitted_mlm
):
    history = fitted_mlm.history.history
    for name, value in loop_trained[1].items():
        assert history[name] == [pytest.approx(value)], name
    expected = evaluation.evaluate(loop_trained[0], _dataset(2))
    for name, value in expected.items():
        assert history[f"val_{name}"] == [pytest.approx(value)], name
    assert fitted_mlm.evaluate(_dataset(2)) == expected


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
    reloaded = keras.saving.load_model(tmp_path / "pretrainer.keras")
    _assert_same_state(reloaded.objective, fitted.objective)
    assert reloaded.config == fitted.config
    assert reloaded.objective.vocabulary.counts == tiny.COUNTED.counts
    for name, value in reloaded(tiny.batch()._asdict()).items():
        expected = fitted(tiny.batch()._asdict())[name]
        np.testing.assert_array_equal(value, expected)


@pytest.fixture
def keras_float16():
    """Sets the global policy with which Keras wraps optimizers."""
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy("float32")


def _after_an_update():
    pretrainer = _make(num_train_steps=1, num_warmup_steps=0)
    pretrainer.compile(run_eagerly=True)
    pretrainer.fit(_dataset(1), verbose=0)
    return pretrainer.objective


def test_precision_comes_from_the_configuration_not_from_keras(request):
    expected = _after_an_update()
    request.getfixturevalue("keras_float16")
    _assert_same_state(_after_an_update(), expected)


def test_a_keras_file_holds_the_loss_scale(keras_float16, tmp_path):
    pretrainer = _make(precision="float16")
    pretrainer.objective.loss_scale.scale.assign(2.0**9)
    pretrainer.save(tmp_path / "pretrainer.keras")
    reloaded = keras.saving.load_model(tmp_path / "pretrainer.keras")
    assert float(reloaded.objective.loss_scale.scale) == 2.0**9
    _assert_same_state(reloaded.objective, pretrainer.objective)


def test_a_keras_file_keeps_a_custom_optimizer(tmp_path):
    pretrainer = _make()
    pretrainer.compile(AdamWeightDecayOptimizer(0.5))
    pretrainer.save(tmp_path / "pretrainer.keras")
    reloaded = keras.saving.load_model(tmp_path / "pretrainer.keras")
    assert float(reloaded.optimizer.learning_rate) == 0.5


def test_a_pretrainer_is_saved_before_it_is_compiled(tmp_path):
    pretrainer = electra_tf.ElectraPretrainer(tiny.config(**MLM), tiny.COUNTED)
    pretrainer.save(tmp_path / "pretrainer.keras")
    reloaded = keras.saving.load_model(tmp_path / "pretrainer.keras")
    _assert_same_state(reloaded.objective, pretrainer.objective)
    with pytest.raises(ValueError, match=r"must call `compile\(\)` before"):
        reloaded.fit(_dataset(1))


def test_each_compile_makes_the_default_optimizer_anew(tmp_path):
    pretrainer = _make(num_train_steps=1, num_warmup_steps=0, **MLM)
    rate = float(pretrainer.optimizer.learning_rate)
    pretrainer.compile(AdamWeightDecayOptimizer(0.5))
    pretrainer.compile(run_eagerly=True)
    assert float(pretrainer.optimizer.learning_rate) == rate > 0
    pretrainer.fit(_dataset(1), verbose=0)
    assert float(pretrainer.optimizer.learning_rate) == 0
    pretrainer.save(tmp_path / "pretrainer.keras")
    pretrainer.compile()
    assert float(pretrainer.optimizer.learning_rate) == rate
    assert not any(x.numpy().any() for x in pretrainer.optimizer.means)
    reloaded = keras.saving.load_model(tmp_path / "pretrainer.keras")
    reloaded.compile(run_eagerly=True)  # what was restored stays until `fit`
    assert int(reloaded.optimizer.iterations) == 1
    assert any(x.numpy().any() for x in reloaded.optimizer.means)


def test_a_network_may_be_frozen_by_hand_but_not_all():
    pretrainer = _make(num_train_steps=1, num_warmup_steps=0)
    pretrainer.objective.generator.trainable = False
    pretrainer.compile(run_eagerly=True)
    frozen, trained = pretrainer.objective.generator, pretrainer.objective
    before, weights = frozen.get_weights(), trained.get_weights()
    pretrainer.fit(_dataset(1), verbose=0)
    for value, expected in zip(frozen.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, expected)
    pairs = zip(trained.get_weights(), weights, strict=True)
    assert any(np.any(value != expected) for value, expected in pairs)
    pretrainer.trainable = False
    with pytest.raises(UserError, match="must have weights to train.*frozen"):
        pretrainer.compile()


def test_weights_frozen_after_compile_are_kept_and_need_another_compile(
    tmp_path,
):
    pretrainer = _make(num_train_steps=1, num_warmup_steps=0, **MLM)
    pretrainer.objective.electra.embeddings.trainable = False
    with pytest.raises(UserError, match="call `compile` after weights are"):
        pretrainer.fit(_dataset(1), verbose=0)
    pretrainer.trainable = False
    pretrainer.save_checkpoint(tmp_path / "saved")
    found = pretrainer.extract("generator").get_weights()
    expected = pretrainer.objective.generator_model.get_weights()
    for value, own in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value, own)


def test_weights_frozen_by_hand_stay_frozen_in_a_keras_file(tmp_path):
    pretrainer = _make(num_train_steps=2, num_warmup_steps=0, **MLM)
    pretrainer.objective.electra.embeddings.trainable = False
    pretrainer.compile(run_eagerly=True)
    pretrainer.fit(_dataset(1), verbose=0)
    pretrainer.save(tmp_path / "pretrainer.keras")
    reloaded = keras.saving.load_model(tmp_path / "pretrainer.keras")
    _assert_same_state(reloaded.objective, pretrainer.objective)
    pretrainer.trainable = False
    pretrainer.save(tmp_path / "pretrainer.keras")
    reloaded = keras.saving.load_model(tmp_path / "pretrainer.keras")
    assert not reloaded.objective.trainable_variables
    assert not reloaded.compiled


def test_the_optimizer_of_another_model_is_refused(fitted):
    """It would train that model."""
    other, optimizer = _make(**MLM), AdamWeightDecayOptimizer(0.5)
    for _ in range(2):
        other.compile(optimizer)
    with pytest.raises(UserError, match="must be new.*adam, built for others"):
        fitted.compile(optimizer)


def test_a_custom_optimizer_leaves_a_frozen_generator_alone():
    schedule = {"num_train_steps": 2, "num_warmup_steps": 0}
    pretrainer = _make(**tiny.TWO_STAGE | schedule)
    pretrainer.compile(AdamWeightDecayOptimizer(0.5), run_eagerly=True)
    pretrainer.fit(_dataset(1), verbose=0)
    weights = pretrainer.objective.generator.get_weights()
    pretrainer.fit(_dataset(1), verbose=0)  # the second stage
    found = pretrainer.objective.generator.get_weights()
    for value, expected in zip(found, weights, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_blocks_that_do_not_divide_the_data_are_refused():
    pretrainer = _make()
    pretrainer.compile(steps_per_execution=3)
    with pytest.raises(UserError, match="must divide.*=3, 10 batches"):
        pretrainer.fit(_dataset(), verbose=0)


@pytest.mark.slow
def test_blocks_of_updates_are_bit_exact(fitted_mlm):
    pretrainer = _make(**MLM)
    pretrainer.compile(steps_per_execution=5)
    pretrainer.fit(_dataset(), verbose=0)
    _assert_same_state(pretrainer.objective, fitted_mlm.objective)


def test_each_call_of_fit_reads_the_rows_in_another_order(monkeypatch):
    pretrainer = _make(num_train_steps=4, num_warmup_steps=0, **MLM)
    pretrainer.compile(run_eagerly=True)
    update, seen = pretrainer.objective.update, []

    def record(inputs):
        seen.append(inputs.input_ids.numpy())
        return update(inputs)

    monkeypatch.setattr(pretrainer.objective, "update", record)
    rows = next(iter(_dataset(2).unbatch().batch(16)))._asdict()
    for _ in range(2):
        pretrainer.fit(rows, batch_size=8, verbose=0)
    first, second = np.reshape(seen, [2, 16, -1])
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(np.sort(first, 0), np.sort(second, 0))


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
    with pytest.raises(UserError, match="must be a checkpoint"):
        _make(init_checkpoint=str(tmp_path / "x"), **leaves)
    with pytest.raises(UserError, match="frozen generator must"):
        _make(**tiny.VARIANTS["fast_electra"])


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


@pytest.mark.parametrize("network", ["discriminator", "generator"])
def test_extract_returns_a_network_with_its_weights(network, fitted):
    alone, rows = fitted.extract(network), tiny.batch()
    logits = alone(rows._asdict())["logits"]
    model = getattr(fitted.objective, f"{network}_model")
    np.testing.assert_array_equal(logits, model(rows._asdict())["logits"])
    reloaded = type(alone).from_config(alone.get_config())
    assert reloaded.vocabulary == tiny.VOCABULARY
    assert reloaded.reader.max_seq_length == tiny.LENGTH


@pytest.mark.parametrize(
    "sharing", ["embeddings", "token_and_position_embeddings", "all"]
)
def test_from_networks_keeps_the_weights_of_both(sharing):
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


def test_replicas_start_from_given_weights(fitted):
    networks = map(fitted.extract, ("generator", "discriminator"))
    with tiny.replicas(2).scope():
        made = electra_tf.ElectraPretrainer.from_networks(*networks, LEAVES)
    weights = fitted.objective.get_weights()
    for value, expected in zip(made.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_networks_and_a_checkpoint_together_are_refused(fitted):
    networks = map(fitted.extract, ("generator", "discriminator"))
    with pytest.raises(UserError, match="`init_checkpoint` must not be set"):
        electra_tf.ElectraPretrainer.from_networks(
            *networks, {"init_checkpoint": "x"}
        )


def test_networks_in_the_wrong_order_or_with_sizes_are_refused(fitted):
    networks = [*map(fitted.extract, ("generator", "discriminator"))]
    make = electra_tf.ElectraPretrainer.from_networks
    message = "`generator` must be an ElectraGenerator.*ElectraDiscriminator"
    with pytest.raises(UserError, match=message):
        make(*reversed(networks))
    message = "`discriminator` must be an ElectraDiscriminator.*EncoderWithHead"
    with pytest.raises(UserError, match=message):
        make(networks[0], EncoderWithHead(networks[1].config))
    with pytest.raises(UserError, match="`config` must be a dict.*Pretraining"):
        make(*networks, fitted.config)


@pytest.mark.parametrize("make", [str, pathlib.Path])
def test_the_vocabulary_may_be_a_path(make, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tiny.VOCABULARY.tokens))
    made = electra_tf.ElectraPretrainer(tiny.config(**MLM), make(path))
    assert made.objective.vocabulary == tiny.VOCABULARY


def test_a_saved_checkpoint_loads_as_each_network(fitted, tmp_path):
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
    pretrainer = _make(num_warmup_steps=0, **MLM)
    pretrainer.compile(run_eagerly=True)
    losses = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: losses.append(logs["loss"])
    )
    pretrainer.fit(
        ["w1 w2 w3 w4\nw5 w6 w7 w8"] * 16,
        epochs=2,
        callbacks=[callback],
        validation_data=["w1 w2 w3"],
        verbose=0,
    )
    assert len(losses) == int(pretrainer.optimizer.iterations) >= 4


def test_summary_lists_the_networks_and_counts_the_weights(fitted, capsys):
    fitted.summary()
    shown = capsys.readouterr().out
    assert f"{fitted.count_params():,}" in shown
    assert {layer.name for layer in fitted.layers} == {
        "electra",
        "discriminator_predictions",
        "generator",
        "generator_predictions",
    }
    for layer in fitted.layers:
        assert f"│ {layer.name} " in shown
        assert f"{layer.count_params():,}" in shown


@pytest.mark.slow
def test_an_export_predicts_as_the_pretrainer(fitted, tmp_path):
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
    pretrainer = _make(False, **tiny.VARIANTS[variant] | schedule)
    pretrainer.compile(run_eagerly=True)
    pretrainer.fit(_dataset(2), verbose=0)
    expected = pretrainer(tiny.batch()._asdict())
    pretrainer.save(tmp_path / "pretrainer.keras")
    reloaded = keras.saving.load_model(tmp_path / "pretrainer.keras")
    _assert_same_state(reloaded.objective, pretrainer.objective)
    for name, value in reloaded(tiny.batch()._asdict()).items():
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"hiden_size": 16}, tiny.VOCABULARY), "flags.*hiden_size"),
        (({"hidden_size": "16"}, tiny.VOCABULARY), "hidden_size"),
        (({"packing": "original"}, tiny.VOCABULARY), "packing=original"),
    ],
)
def test_an_invalid_configuration_is_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        electra_tf.ElectraPretrainer(*arguments)


def test_another_optimizer_or_options_of_keras_are_refused(fitted):
    with pytest.raises(UserError, match="AdamWeightDecay.*Received: SGD"):
        fitted.compile(keras.optimizers.SGD())
    optimizer = AdamWeightDecayOptimizer(0.5, global_clipnorm=2.0)
    message = "ignores. Received: global_clipnorm=2.0. Set clip_norm"
    with pytest.raises(UserError, match=message):
        fitted.compile(optimizer)


@pytest.mark.parametrize(
    "argument",
    [
        {"loss": "mse"},
        {"loss_weights": [2.0]},
        {"metrics": ["accuracy"]},
        {"weighted_metrics": ["accuracy"]},
        {"jit_compile": True},
        {"auto_scale_loss": False},
    ],
    ids=lambda argument: next(iter(argument)),
)
def test_compile_refuses_what_it_cannot_honour(argument, fitted):
    with pytest.raises(TypeError, match=f"unexpected.*'{next(iter(argument))}"):
        fitted.compile(**argument)


@pytest.mark.parametrize(
    ("method", "name", "way_out"),
    [
        ("fit", "class_weight", "Leave it out"),
        ("fit", "sample_weight", "no labels and no weights"),
        ("fit", "y", "no labels"),
        ("fit", "validation_split", "held-out texts as validation_data"),
        ("fit", "validation_batch_size", "Set eval_batch_size"),
        ("evaluate", "batchsize", "among verbose, return_dict"),
        ("evaluate", "callbacks", "Leave it out"),
        ("evaluate", "sample_weight", "no weights"),
    ],
)
def test_an_argument_that_would_be_ignored_is_refused(
    method, name, way_out, fitted
):
    with pytest.raises(UserError, match=f"`{method}`.*{name}") as error:
        getattr(fitted, method)(_dataset(1), **{name: [3]})
    assert way_out in str(error.value)


def test_a_batch_that_micro_batches_do_not_divide_is_refused():
    pretrainer = _make(gradient_accumulation_steps=4, **MLM)
    texts = ["w1 w2 w3 w4 w5 w6"] * 40
    with pytest.raises(UserError, match="6 rows, 1 replicas"):
        pretrainer.fit(texts, batch_size=6, verbose=0)
    lines = tf.data.Dataset.from_tensor_slices(texts)
    with pytest.raises(UserError, match="multiple of 4 rows.*drop_remainder"):
        pretrainer.fit(lines.batch(8), verbose=0)
    with pytest.raises(UserError, match="6 rows, 1 replicas"):
        pretrainer.fit(lines.batch(6, drop_remainder=True), verbose=0)


def test_fit_without_compile_or_a_batch_is_refused(fitted):
    pretrainer = electra_tf.ElectraPretrainer(tiny.config(), tiny.COUNTED)
    with pytest.raises(ValueError, match=r"must call `compile\(\)` before"):
        pretrainer.fit(["w1 w2"])
    few = _dataset(1).unbatch().batch(128, drop_remainder=True)
    few = few.apply(tf.data.experimental.assert_cardinality(0))
    with pytest.raises(UserError, match="at least one batch"):
        fitted.fit(few, verbose=0)


def test_an_epoch_past_the_end_of_the_data_makes_no_update():
    pretrainer = _make(num_train_steps=4, num_warmup_steps=0, **MLM)
    pretrainer.compile(run_eagerly=True)
    data = _dataset(2).filter(lambda *_: True)  # of unknown cardinality
    with pytest.warns(UserWarning, match="ran out of data"):
        pretrainer.fit(data, epochs=2, steps_per_epoch=2, verbose=0)
    assert int(pretrainer.optimizer.iterations) == 2


@pytest.mark.parametrize("method", ["train_on_batch", "test_on_batch"])
def test_a_single_batch_is_refused(fitted, method):
    with pytest.raises(UserError, match=f"{method}. Call .*Dataset"):
        getattr(fitted, method)(_dataset(1))


def test_empty_data_are_refused(fitted):
    with pytest.raises(UserError, match="must not be empty"):
        fitted.evaluate(_dataset(1).take(0))
    for texts in ([], "w1 w2"):
        with pytest.raises(UserError, match="There must be texts"):
            fitted.predict(texts)


def test_a_seed_may_exceed_32_bits():
    _make(seed=2**40)


@pytest.mark.parametrize("leaves", [{"num_train_steps": 1}, {}])
def test_fit_warns_of_a_schedule_of_another_length(leaves):
    pretrainer = _make(**leaves, **MLM)
    pretrainer.compile(run_eagerly=True)
    with pytest.warns(UserWarning, match="ends at update 2,.*num_train_steps"):
        pretrainer.fit(_dataset(2), verbose=0)
