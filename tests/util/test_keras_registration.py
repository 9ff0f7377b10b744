"""Keras files load once `electra_tf` is imported."""

import subprocess
import sys
import types

import keras
import pytest
import tiny_finetuning as tiny

import electra_tf
from electra_tf.model.networks import EncoderWithHead
from electra_tf.util import keras_registration

LOAD = """
import sys
import electra_tf
assert "keras" not in sys.modules
{first}
import keras
for name in ("dense", "functional", "encoder", "tagger"):
    model = keras.saving.load_model(f"{{sys.argv[1]}}/{{name}}.keras")
    print(type(model).__name__, type(model.optimizer).__name__)
found = keras.saving.get_registered_object("electra_tf>ElectraTagger")
assert found is type(model)
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Holds a model of ours, one around ours, and one with our optimizer."""
    path = tmp_path_factory.mktemp("saved")
    tagger = electra_tf.ElectraTagger(tiny.ENCODER, tiny.VOCABULARY, 2)
    tagger.compile(tagger.make_optimizer(num_train_steps=9))
    tagger.save(path / "tagger.keras")
    encoder = EncoderWithHead(tiny.ENCODER, tiny.VOCABULARY)
    encoder.compile(tagger.make_optimizer(num_train_steps=9))
    encoder.save(path / "encoder.keras")
    backbone = electra_tf.ElectraBackbone(tiny.ENCODER, tiny.VOCABULARY)
    texts = keras.Input((), dtype="string")
    vector = keras.Input((16,))
    for name, first, last in (
        ("functional", texts, backbone(texts)["pooled_output"]),
        ("dense", vector, vector),
    ):
        model = keras.Model(first, keras.layers.Dense(2)(last))
        model.compile(backbone.make_optimizer(num_train_steps=9), "mse")
        model.save(path / f"{name}.keras")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "import tensorflow"])
def test_models_are_loaded_where_the_package_is_imported(first, directory):
    completed = subprocess.run(
        [sys.executable, "-c", LOAD.format(first=first), str(directory)],
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines() == [
        f"{name} AdamWeightDecayOptimizer"
        for name in (
            *("Functional", "Functional", "EncoderWithHead"),
            "ElectraTagger",
        )
    ]


def test_a_class_is_found_where_keras_is_imported_already(monkeypatch):
    class Thing:
        @classmethod
        def from_config(cls, config):
            return cls(), config

    module = types.SimpleNamespace(Thing=Thing)
    monkeypatch.setitem(sys.modules, "module_of_thing", module)
    registered = keras.saving.get_custom_objects()
    keras_registration.register({"Thing": "module_of_thing"})
    thing, config = registered.pop("electra_tf>Thing").from_config({"x": 1})
    assert type(thing) is Thing and config == {"x": 1}
    tagger = electra_tf.ElectraTagger
    keras_registration.register({"ElectraTagger": "elsewhere"})
    assert registered["electra_tf>ElectraTagger"] is tagger
