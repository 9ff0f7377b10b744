"""The model of every registered objective can be converted."""

import dataclasses
import functools
from contextlib import nullcontext

import numpy as np
import pytest
import tiny
import tiny_networks

from electra_tf.checkpoint import architecture, convert, loading, weights
from electra_tf.config.analysis import ConvertConfig
from electra_tf.config.objectives import OBJECTIVES
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import export, initialization
from electra_tf.util import files
from electra_tf.util.errors import UserError
from electra_tf.util.flags import parse_flags


@functools.cache
def _model(objective):
    settings = tiny.VARIANTS[objective] | {"num_hidden_layers": 2}
    config = tiny.config(initializer_range=0.2, **settings)
    return tiny.model(config, tiny.COUNTED)


def _convert(loaded, output, **options):
    config = ConvertConfig(input="model", output=str(output), **options)
    convert.write(convert.prepare(loaded, config), config)


@pytest.fixture(scope="module", params=OBJECTIVES)
def model(request):
    return _model(request.param)


def test_every_weight_of_an_objective_belongs_to_its_networks(model):
    exported = export.weights_of(model)
    assert exported.architecture.shapes().keys() == {
        variable.path for variable in model.variables
    }
    in_a_network = set()
    for network in (*exported.networks, weights.ENCODER):
        alone = weights.select(exported, network)
        shapes = {n: a.shape for n, a in alone.arrays.items()}
        inferred = architecture.infer(shapes).shapes()
        assert inferred == alone.architecture.shapes()
        assert not alone.architecture.extras
        in_a_network |= {id(array) for array in alone.arrays.values()}
    in_none = (
        *architecture.EXTRAS,
        *("generator_ltr", "generator_rtl", architecture.CLOZE_HEAD),
    )
    assert all(
        id(array) in in_a_network or name.startswith(in_none)
        for name, array in exported.arrays.items()
    )


def test_all_networks_of_an_objective_return_from_hugging_face(model, tmp_path):
    exported = weights.without_slots(export.weights_of(model))
    if "corrector" in exported.networks:
        return
    _convert(exported, tmp_path / "hf", target_format="hf")
    reread = loading.read(str(tmp_path / "hf"))
    assert reread.networks == exported.networks
    for network in exported.networks:
        expected, found = (
            weights.select(x, network).arrays for x in (exported, reread)
        )
        assert found.keys() == expected.keys() - {architecture.STEP}
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name], name)


def test_a_converted_run_goes_on_with_the_flags_beside_it(model, tmp_path):
    exported = export.weights_of(model)
    output = tmp_path / "out"
    _convert(exported, output)
    if architecture.GENERATOR_HEAD in exported.architecture.heads:
        config = parse_flags(
            PretrainingConfig,
            [
                f"--flagfile={output}/model.cfg",
                f"--init_checkpoint={output}",
                f"--vocab_file={output}/vocab.txt",
                f"--data_dir={output}",
                "--model_name=NAME",
            ],
        )
        made = tiny.model(config, tiny.COUNTED)
        found = initialization.read_model(config)
        assert initialization.assign(made, found) == {
            variable.path for variable in model.variables
        }


HIDDEN = {"classifier/dense": (16, 16), "classifier/out_proj": (16, 2)}
SPANS = {"dense": (16, 1), "dense_1": (16, 1)}


@pytest.mark.parametrize(
    ("task", "modules", "kind"),
    [
        ("x", HIDDEN, "SequenceClassification"),
        ("x", SPANS, "QuestionAnswering"),
        ("chunk", {"dense": (16, 3)}, "TokenClassification"),
        ("x", {"dense": (16, 3)}, None),
    ],
)
def test_the_kind_of_a_head_is_that_of_its_modules_or_its_task(
    task, modules, kind, tmp_path
):
    encoder = loading.weights_of(tiny_networks.discriminator())
    encoder = weights.select(encoder, weights.ENCODER)
    found = dataclasses.replace(encoder.architecture, tasks={task: modules})
    arrays = {n: np.zeros(x, "f") for n, x in found.shapes().items()}
    tuned = dataclasses.replace(encoder, arrays=arrays, architecture=found)
    with nullcontext() if kind else pytest.raises(UserError):
        _convert(tuned, tmp_path, target_format="hf")
        content = files.read_json(tmp_path / "config.json")
        assert content["architectures"] == [f"ElectraFor{kind}"]


@pytest.mark.parametrize("objective", ["replace_mlm", "coco_lm"])
def test_a_corrector_becomes_a_masked_language_model(objective, tmp_path):
    model, inputs = _model(objective), tiny.batch()
    _convert(export.weights_of(model), tmp_path / "hf", target_format="hf")
    network = loading.load(str(tmp_path / "hf" / "corrector"))
    states = model.electra(*inputs).sequence_output
    found = network(inputs._asdict())
    np.testing.assert_allclose(found["sequence_output"], states, atol=1e-5)
    table = model.electra.embeddings.word_embeddings
    expected = model.corrector_predictions(states, table)
    np.testing.assert_allclose(found["logits"], expected, atol=1e-4)
    assert (tmp_path / "hf/generator/model.safetensors").exists()


def test_a_discriminator_has_the_layers_it_was_trained_with():
    model, inputs = _model("teams"), tiny.batch()
    exported = export.weights_of(model)
    discriminator, encoder = (
        loading.make(weights.select(exported, name))(inputs._asdict())
        for name in ("discriminator", weights.ENCODER)
    )
    for found, expected in (
        (discriminator["logits"], model.discriminate(inputs)),
        (encoder["sequence_output"], model.electra(*inputs).sequence_output),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)
