import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

import electra_tf
from electra_tf.finetune import keras_models, preprocessing
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import TextTokenizer

TEXTS = ["the good film is very", "it was a bad plot"] * 24
LABELS = [1, 0] * 24


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("data")
    tiny.write_model(data_dir)
    return str(data_dir / "models/tiny")


def _model(path, **arguments):
    keras.utils.set_random_seed(0)
    return electra_tf.ElectraClassifier.from_checkpoint(path, **arguments)


@pytest.fixture(scope="module")
def trained(path):
    model = _model(path)
    model.compile(
        model.make_optimizer(1e-2, num_train_steps=36),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = model.fit(
        TEXTS,
        LABELS,
        batch_size=8,
        epochs=6,
        verbose=0,
        validation_data=(TEXTS[:2], LABELS[:2]),
    )
    return model, history.history


def test_it_learns_from_strings(trained):
    model, history = trained
    assert history["val_accuracy"][-1] == 1
    scores = model.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)
    assert scores["accuracy"] == 1
    logits = model.predict(TEXTS[:3], verbose=0)
    assert logits.argmax(1).tolist() == [1, 0, 1]


def test_it_is_saved_and_loaded_in_safe_mode(trained, tmp_path):
    model, _ = trained
    file = tmp_path / "model.keras"
    model.save(file)
    again = keras.saving.load_model(file, safe_mode=True)
    np.testing.assert_array_equal(
        again.predict(TEXTS[:5], verbose=0), model.predict(TEXTS[:5], verbose=0)
    )
    assert again.vocabulary == model.vocabulary
    assert again.get_config() == model.get_config()


def test_batches_of_strings_are_data_too(trained):
    model, _ = trained
    data = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(16)
    scores = model.evaluate(data, verbose=0, return_dict=True)
    assert scores["accuracy"] == 1


def test_its_logits_are_those_of_run_finetuning(path):
    model = _model(path)
    ours = FinetuningModel(
        tiny.config(), model.encoder, [model.head], seed=0, num_train_steps=1
    )
    batch = model.preprocess(tf.constant(TEXTS[:2]))
    expected = ours.outputs(model.head.name, batch)["logits"]
    found = model.predict(TEXTS[:2], verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    for variable in model.encoder.variables:
        np.testing.assert_array_equal(
            variable.numpy(), tiny.weights().arrays[variable.path]
        )


def test_rows_are_those_of_run_finetuning():
    tokenizer = TextTokenizer(tiny.VOCABULARY)
    words = np.array(tiny.WORDS)
    random = np.random.default_rng(0)
    sizes = random.integers(0, 14, (60, 2))
    first, second = (
        [" ".join(random.choice(words, n)) for n in column]
        for column in sizes.T
    )
    ids = [tokenizer.tokenize(texts) for texts in (first, second)]
    for length in (11, 12):
        found = keras_models.pack(
            *(tf.ragged.constant([list(x) for x in y], tf.int32) for y in ids),
            tiny.VOCABULARY,
            length,
        )
        for row, (one, two) in enumerate(zip(*ids, strict=True)):
            pair = preprocessing.truncate_pair(one, two, length - 3)
            expected = preprocessing.join(tiny.VOCABULARY, *pair)
            size = len(expected["input_ids"])
            mask = (np.arange(length) < size).tolist()
            assert found["input_mask"][row].numpy().tolist() == mask
            for name, values in expected.items():
                padded = np.pad(values, (0, length - size))
                np.testing.assert_array_equal(found[name][row], padded)


def test_pairs_are_two_sequences(path):
    model = _model(path, num_classes=3, max_seq_length=12)
    logits = model.predict((TEXTS[:4], TEXTS[1:5]), verbose=0)
    batch = model.preprocess(tf.constant(TEXTS[:4]), tf.constant(TEXTS[1:5]))
    assert batch["input_ids"].shape == [4, 12]
    np.testing.assert_allclose(logits, model(batch), rtol=1e-5, atol=1e-6)


def test_dropout_differs_from_step_to_step(path):
    model = _model(path)
    batch = model.preprocess(tf.constant(TEXTS[:4]))
    first, second = (model(batch, training=True).numpy() for _ in range(2))
    assert (first != second).any()
    np.testing.assert_array_equal(model(batch), model(batch))


def test_layers_can_be_frozen(path):
    model = _model(path)
    model.encoder.trainable = False
    paths = [variable.path for variable in model.trainable_variables]
    assert sorted(paths) == [
        f"task_specific/classifier/dense/{name}" for name in ("bias", "kernel")
    ]


def test_the_package_is_imported_without_tensorflow():
    code = (
        "import sys, electra_tf; assert 'tensorflow' not in sys.modules;"
        "assert not hasattr(electra_tf, 'Electra')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
