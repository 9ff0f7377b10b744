"""The model of every registered objective can be converted."""

import dataclasses

import numpy as np
import pytest
import tiny

from electra_tf.checkpoint import (
    architecture,
    checkpoint_formats,
    conversion,
    loading,
    weights,
)
from electra_tf.config.conversion import ConvertConfig
from electra_tf.config.objective_traits import TRAITS
from electra_tf.pretrain import export

_REQUIRED_SETTINGS = {
    "two_stage": tiny.TWO_STAGE,
    "fast_electra": {"generator_sharing": "none"},
}


def _model(objective, **settings):
    settings |= _REQUIRED_SETTINGS.get(objective, {})
    settings |= {"objective": objective, "num_hidden_layers": 2}
    config = tiny.config(initializer_range=0.2, **settings)
    return tiny.model(config, tiny.COUNTED)


def _convert(loaded, output, **options):
    config = ConvertConfig(input="model", output=str(output), **options)
    conversion.write(conversion.prepare(loaded, config), config)


@pytest.fixture(scope="module", params=TRAITS)
def model(request):
    return _model(request.param)


def test_every_variable_of_an_objective_belongs_to_the_architecture(model):
    exported = export.weights_of(model)
    assert exported.architecture.shapes().keys() == {
        variable.path for variable in model.variables
    }
    for network in (*exported.networks, weights.ENCODER):
        alone = weights.select(exported, network)
        shapes = {n: a.shape for n, a in alone.arrays.items()}
        inferred = architecture.infer(shapes).shapes()
        assert inferred == alone.architecture.shapes()
        assert not alone.architecture.extras


def test_size_flags_equal_the_configuration_of_the_objective(model):
    flags = architecture.size_flags(export.weights_of(model).architecture)
    config = model.config
    expected = {
        **dataclasses.asdict(config.model),
        **dataclasses.asdict(config.objective),
        **dataclasses.asdict(config.model.discriminator(1)),
        "generator_width": config.model.generator(1).hidden_size,
        **{
            f"generator_{name}": value
            for name, value in dataclasses.asdict(
                config.model.generator(1)
            ).items()
        },
    }
    objective = config.objective.objective
    one_network = ("mlm", "mlm_sentence", "script")
    expected["objective"] = "mlm" if objective in one_network else objective
    if objective == "electric":
        expected["generator_type"] = "two_tower"
    assert {name: expected[name] for name in flags} == flags
    assert {"hidden_size", "num_hidden_layers"} <= flags.keys()


def _states(network, inputs):
    return network.encoder(*inputs).sequence_output


@pytest.mark.parametrize("objective", ["replace_mlm", "coco_lm"])
def test_a_corrector_becomes_a_masked_language_model(objective, tmp_path):
    model, inputs = _model(objective), tiny.batch()
    _convert(export.weights_of(model), tmp_path / "hf", target_format="hf")
    network = loading.load(str(tmp_path / "hf" / "corrector"))
    states = _states(network, inputs)
    np.testing.assert_allclose(
        states, model.electra(*inputs).sequence_output, atol=1e-5
    )
    table = network.encoder.embeddings.word_embeddings
    model_table = model.electra.embeddings.word_embeddings
    np.testing.assert_allclose(
        network.head(states, table),
        model.corrector_predictions(states, model_table),
        atol=1e-4,
    )
    assert (tmp_path / "hf/generator/model.safetensors").exists()


def test_a_discriminator_has_the_layers_it_was_trained_with(tmp_path):
    model, inputs = _model("teams"), tiny.batch()
    discriminator_weights = weights.select(
        export.weights_of(model), "discriminator"
    )
    network = loading.make(discriminator_weights)
    np.testing.assert_allclose(
        network.head(_states(network, inputs)),
        model.discriminate(inputs),
        atol=1e-5,
    )
    encoder_weights = weights.select(export.weights_of(model), weights.ENCODER)
    np.testing.assert_allclose(
        _states(loading.make(encoder_weights), inputs),
        model.electra(*inputs).sequence_output,
        atol=1e-5,
    )


def test_weights_of_no_network_are_converted_with_their_slots(tmp_path):
    exported = export.weights_of(_model("all_tokens_mlm"))
    scope = "copy_predictions"
    assert f"  {scope}: weights of its objective only" in conversion.describe(
        exported
    )
    _convert(exported, tmp_path / "both")
    reread = checkpoint_formats.read(str(tmp_path / "both"))
    names = {name for name in reread.arrays if name.startswith(scope)}
    assert len(names) == 3 * 4  # four weights with two slots each
    assert reread.arrays.keys() == exported.arrays.keys() | names
