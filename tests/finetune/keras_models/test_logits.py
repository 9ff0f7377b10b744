import keras
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

import electra_tf
from electra_tf.finetune.keras_models import logits
from electra_tf.util.errors import UserError

OF_PROBABILITIES = [
    "sparse_categorical_crossentropy",
    "categorical_crossentropy",
    "binary_crossentropy",
    "BinaryCrossentropy",
    keras.losses.sparse_categorical_crossentropy,
    keras.losses.SparseCategoricalCrossentropy(),
    keras.losses.BinaryFocalCrossentropy(),
    keras.losses.CategoricalCrossentropy,
]


@pytest.mark.parametrize("wrong", OF_PROBABILITIES)
def test_a_loss_of_probabilities_is_refused(wrong):
    for loss in (wrong, [wrong], {"output": wrong}):
        with pytest.raises(UserError, match="loss.*logits.*from_logits=True"):
            logits.check(loss, None)


@pytest.mark.parametrize(
    "wrong", ["sparse_categorical_crossentropy", keras.metrics.AUC(), "AUC"]
)
def test_a_metric_of_probabilities_is_refused(wrong):
    with pytest.raises(UserError, match="`metrics`.*logits"):
        logits.check("mse", (["accuracy", wrong], None))


def test_what_takes_logits_or_asks_for_no_probabilities_is_taken():
    logits.check(
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        (["accuracy", keras.metrics.AUC(from_logits=True)], None),
    )
    logits.check("mse", ("mae", [keras.metrics.SparseCategoricalAccuracy()]))
    logits.check(lambda y, x: tf.reduce_mean(x), None)
    logits.check({"a": "hinge", "b": None}, "auto")
    logits.check("no_such_loss", "no_such_metric")  # Keras refuses these


def test_a_file_with_such_a_loss_is_loaded_with_the_models_own(tmp_path):
    model = electra_tf.ElectraClassifier(tiny.ENCODER, tiny.VOCABULARY, 2)
    wrong = "sparse_categorical_crossentropy"
    with pytest.raises(UserError, match=wrong):
        model.compile("sgd", wrong)
    keras.Model.compile(model, "sgd", wrong, metrics=["accuracy"])
    model.save(tmp_path / "model.keras")
    with pytest.warns(UserWarning, match=f"{wrong}.*own are taken"):
        again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.loss.from_logits and type(again.optimizer).__name__ == "SGD"
