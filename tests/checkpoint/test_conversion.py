"""What every registered objective trains can be converted."""

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

_NEEDED = {
    "two_stage": tiny.TWO_STAGE,
    "fast_electra": {"generator_sharing": "none"},
}


def _model(objective, **leaves):
    leaves |= _NEEDED.get(objective, {})
    leaves |= {"objective": objective, "num_hidden_layers": 2}
    config = tiny.config(initializer_range=0.2, **leaves)
    return tiny.model(config, tiny.COUNTED)


def _convert(loaded, output, **options):
    config = ConvertConfig(input="model", output=str(output), **options)
    conversion.write(conversion.prepare(loaded, config), config)


@pytest.fixture(scope="module", params=TRAITS)
def model(request):
    return _model(request.param)


def test_every_weight_of_an_objective_has_its_place(model):
    found = export.weights_of(model)
    assert found.architecture.shapes().keys() == {
        variable.path for variable in model.variables
    }
    for network in (*found.networks, weights.ENCODER):
        alone = weights.select(found, network)
        shapes = {n: a.shape for n, a in alone.arrays.items()}
        inferred = architecture.infer(shapes).shapes()
        assert inferred == alone.architecture.shapes()
        assert not alone.architecture.extras


def test_its_flags_make_the_same_networks(model):
    flags = architecture.size_flags(export.weights_of(model).architecture)
    config = model.config
    told = {
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
    told["objective"] = "mlm" if objective in one_network else objective
    if objective == "electric":
        told["generator_type"] = "two_tower"
    assert {name: told[name] for name in flags} == flags


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
    theirs = model.electra.embeddings.word_embeddings
    np.testing.assert_allclose(
        network.head(states, table),
        model.corrector_predictions(states, theirs),
        atol=1e-4,
    )
    assert (tmp_path / "hf/generator/model.safetensors").exists()


def test_a_discriminator_has_the_layers_it_was_trained_with(tmp_path):
    model, inputs = _model("teams"), tiny.batch()
    made = weights.select(export.weights_of(model), "discriminator")
    network = loading.make(made)
    np.testing.assert_allclose(
        network.head(_states(network, inputs)),
        model.discriminate(inputs),
        atol=1e-5,
    )
    kept = weights.select(export.weights_of(model), weights.ENCODER)
    np.testing.assert_allclose(
        _states(loading.make(kept), inputs),
        model.electra(*inputs).sequence_output,
        atol=1e-5,
    )


def test_what_only_an_objective_has_is_carried_along(tmp_path):
    found = export.weights_of(_model("all_tokens_mlm"))
    scope = "copy_predictions"
    assert f"  {scope}: weights of its objective only" in conversion.describe(
        found
    )
    _convert(found, tmp_path / "both")
    again = checkpoint_formats.read(str(tmp_path / "both"))
    names = {name for name in again.arrays if name.startswith(scope)}
    assert len(names) == 3 * 4  # weights and two slots each
    assert again.arrays.keys() == found.arrays.keys() | names
