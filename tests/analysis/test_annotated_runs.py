"""Analyses of annotated text by the networks of a real, tiny run."""

import numpy as np
import pytest
import tiny_scoring
from analysis_configs import config

from electra_tf.analysis import (
    calibration,
    calibration_metrics,
    error_detection,
    pos_bias,
)
from electra_tf.analysis.scoring.scorer import Scorer


def _sentences(seed, label):
    """Returns 12 sentences of 6 words in the layout of FCE or CoNLL-U."""
    rng = np.random.default_rng(seed)
    rows = [
        "".join(label(i, f"w{rng.integers(55)}", rng) for i in range(6))
        for _ in range(12)
    ]
    return "\n".join(rows)


def _labelled(number, word, rng):
    del number
    return f"{word}\t{'ci'[int(rng.random() < 0.3)]}\n"


def _tagged(number, word, rng):
    return f"{number + 1}\t{word}\t_\t{rng.choice(['NOUN', 'VERB'])}\n"


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    root = tmp_path_factory.mktemp("texts")
    for seed, split in enumerate(("dev", "test")):
        for ending, label in (("tsv", _labelled), ("conllu", _tagged)):
            text = _sentences(seed, label)
            (root / f"{split}.{ending}").write_text(text)
    _, model = tiny_scoring.write_run(tmp_path_factory.mktemp("run"))
    return root, str(model)


@pytest.fixture(scope="module")
def scorer(paths):
    return Scorer.from_config(_config(paths, "errors", "tsv"))


@pytest.fixture(autouse=True)
def _load_once(scorer, monkeypatch):
    monkeypatch.setattr(Scorer, "from_config", lambda _: scorer)


def _config(paths, what, *endings, **fields):
    root, model = paths
    dev, test = (
        [str(root / f"{split}.{ending}") for ending in endings]
        for split in ("dev", "test")
    )
    if what != "pos_bias":
        fields["dev"] = tuple(dev)
    return config(*test, what=what, model=model, **fields)


def test_errors_are_measured_by_every_score(paths):
    report = error_detection.run(_config(paths, "errors", "tsv"))
    found = report.results["detectors"]
    assert list(found) == ["discriminator", "mlm", "unigram", "all words"]
    assert report.results["test"]["num_words"] == 72
    assert report.results["repairs"] is None  # no correction is known


def test_every_token_has_its_tag(paths):
    report = pos_bias.run(_config(paths, "pos_bias", "conllu"))
    tags = report.results["tags"]
    assert list(tags) == ["all", "NOUN", "VERB"]
    assert tags["all"].false_positives.trials == 72
    assert tags["all"].generator_error.trials == 12  # one of six tokens
    assert report.results["replaced_by"] == "generator"


def test_the_scorer_finds_the_temperature_that_was_written(paths, monkeypatch):
    given = _config(
        paths, "calibration", "tsv", "conllu", write_calibration=True
    )
    monkeypatch.setattr(calibration_metrics, "fit_temperature", lambda _: 2.5)
    found = calibration.run(given).results
    assert list(found) == ["human errors", "replaced tokens"]
    monkeypatch.undo()
    assert Scorer.from_config(given).temperature == 2.5
