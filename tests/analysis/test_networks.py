"""Scores that a checkpoint offers, and why it lacks the others."""

import dataclasses
import shutil

import numpy as np
import pytest
import tiny
import tiny_scoring

from electra_tf.analysis.networks import ScoringNetworks
from electra_tf.checkpoint import loading
from electra_tf.model.networks import ElectraGenerator
from electra_tf.util.errors import ElectraWarning, UserError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns the directory of a run of two towers."""
    directory = tmp_path_factory.mktemp("run")
    leaves = {"generator_type": "two_tower", "temperature": 2.0}
    return tiny_scoring.write_run(directory, **leaves)[1]


def _without_config(run, directory, vocabulary=tiny.VOCABULARY):
    shutil.copytree(run, directory, ignore=shutil.ignore_patterns("*.json"))
    if vocabulary:
        (directory / "vocab.txt").write_bytes(vocabulary.content)
    return str(directory)


def test_a_sampling_temperature_rules_out_the_two_tower_score(run):
    networks = ScoringNetworks(str(run))
    assert networks.scores == ("discriminator",)
    assert networks.towers is None


def test_two_towers_without_a_configuration_are_refused(run, tmp_path):
    """Their discriminator may output logits of P(replaced) or energies."""
    path = _without_config(run, tmp_path / "alone")
    with (
        pytest.warns(ElectraWarning, match="attention heads"),
        pytest.raises(UserError),
    ):
        ScoringNetworks(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "objective", ["script", "teams", "coco_lm", "electra_sentence"]
)
def test_verdicts_are_those_of_the_objective(tmp_path, objective):
    model, path = tiny_scoring.write_run(tmp_path, **tiny.VARIANTS[objective])
    networks = ScoringNetworks(str(path))
    inputs = tiny.batch()
    ids = inputs.input_ids.numpy()
    zeros = inputs._replace(segment_ids=inputs.segment_ids * 0)
    expected = model.discriminate(zeros).numpy()
    found = networks.detect(ids)["logits"]
    assert "discriminator" in networks.scores
    np.testing.assert_allclose(found[ids > 0], expected[ids > 0], atol=1e-5)


@pytest.mark.slow
def test_mc_bert_has_no_discriminator_score(tmp_path):
    _, path = tiny_scoring.write_run(tmp_path, objective="mc_bert")
    networks = ScoringNetworks(str(path))
    assert networks.scores == ("mlm",)


def test_a_vocabulary_must_be_known(run, tmp_path):
    path = _without_config(run, tmp_path / "alone", vocabulary=None)
    with pytest.raises(UserError):
        ScoringNetworks(path)


def test_a_generator_must_have_a_row_for_each_token_of_the_model(run, tmp_path):
    smaller = ElectraGenerator(dataclasses.replace(tiny.BERT, vocab_size=40))
    weights = loading.weights_of(smaller)
    (path,) = loading.write(str(tmp_path / "g"), weights, "tf1")
    with pytest.raises(UserError):
        ScoringNetworks(str(run), generator=str(path))
