"""The report on representations: a model equals a twin that is itself."""

import dataclasses

import analysis_configs
import numpy as np
import pytest
import tiny_networks

from electra_tf.analysis.reporting import reports
from electra_tf.analysis.representations import cka
from electra_tf.analysis.representations import comparison as representations
from electra_tf.analysis.representations.anisotropy import mean_cosine
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

TAGS = {"good": "ADJ", "bad": "ADJ", "film": "NOUN", "plot": "NOUN", ".": "."}

BOTH = ("train.conllu", "chunks.txt")


def conllu(num_sentences, seed):
    """Returns sentences in which every word determines its tag."""
    random = np.random.default_rng(seed)
    words = random.choice(list(TAGS), (num_sentences, 6))
    return "\n\n".join(
        "\n".join(f"{i}\t{x}\t_\t{TAGS[x]}" for i, x in enumerate(row, 1))
        for row in words
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("representations")
    (root / "train.conllu").write_text(conllu(20, 0))
    (root / "test.conllu").write_text(conllu(12, 1))
    (root / "chunks.txt").write_text("good JJ B-NP\nfilm NN I-NP\n")
    with seeds.seed_initializers(0):  # some weights are hard to probe
        tiny_networks.save(tiny_networks.discriminator(), root / "model")
        tiny_networks.save(tiny_networks.generator(), root / "twin")
    return root


def config(files, model="model", *, test=("test.conllu",), **values):
    if "dev" in values:
        values["dev"] = tuple(str(files / name) for name in values["dev"])
    if "twin" in values:
        values["twin"] = str(files / values["twin"])
    return analysis_configs.config(
        *(files / name for name in test),
        what="representations",
        model=str(files / model),
        **values,
    )


@pytest.fixture(scope="module")
def same(files):
    """Returns the report of a model whose twin is itself, as JSON stores it."""
    report = representations.run(
        config(files, twin="model", dev=("train.conllu",), words=("good",))
    )
    return dataclasses.replace(report, results=reports.plain(report.results))


def test_a_twin_equal_to_the_model_has_equal_results(same):
    results = same.results
    between = np.array(results["cka"]["model, twin"])
    np.testing.assert_allclose(between, results["cka"]["model, model"])
    np.testing.assert_allclose(np.diagonal(between), 1)
    assert between[0, 2] < 0.999
    for layer in results["same_layer_cka"]:
        assert layer == pytest.approx({"value": 1, "low": 1, "high": 1})
    for kind in ("anisotropy", "anisotropy_centred"):
        assert results[kind]["model"] == results[kind]["twin"]
        assert len(results[kind]["model"]) == 3
    of_tags = results["probes"]["part of speech"]
    assert all(x["value"] == 0 for x in of_tags["differences"])
    assert of_tags["num_tested"] == results["num_words"] == 72
    assert of_tags["num_learnt"] == 120
    found = results["neighbours"]["good"]
    assert found["model"] == found["twin"] and len(found["model"]) == 5


def test_word_embeddings_encode_tags_that_words_determine(same):
    of_tags = same.results["probes"]["part of speech"]
    assert of_tags["baselines"]["most frequent tag of the word"]["value"] == 1
    assert 0.3 < of_tags["baselines"]["most frequent tag"]["value"] < 0.6
    assert of_tags["accuracies"]["model"][0]["value"] > 0.8


def test_the_report_can_be_drawn(same):
    assert set(same.headline) == {
        "anisotropy, last layer",
        "part of speech accuracy, last layer",
        "CKA with twin, last layers",
    }
    assert set(analysis_configs.draw(same)) == {
        *("cka_model", "cka_twin", "cka_model_twin"),
        *("anisotropy", "probes_part_of_speech"),
    }


def test_a_different_twin_has_another_cka(files, same):
    results = representations.run(config(files, twin="twin")).results
    assert results["probes"] == {} and results["neighbours"] == {}
    np.testing.assert_allclose(
        results["cka"]["model, model"], same.results["cka"]["model, model"]
    )
    between = np.array(results["cka"]["model, twin"])
    assert not np.allclose(between, same.results["cka"]["model, twin"])


def test_cka_and_anisotropy_are_computed_from_the_states(files, monkeypatch):
    monkeypatch.setattr(representations, "MINIBATCH_WORDS", 20)
    seen = []
    hsic = cka.hsic

    def record_states(states):
        seen.append(np.stack(states))
        return hsic(states)

    monkeypatch.setattr(cka, "hsic", record_states)
    results = representations.run(config(files)).results
    assert [x.shape for x in seen] == [(3, 20, 16)] * 3  # 12 words remain
    expected = cka.cka(np.stack([hsic(x) for x in seen]))
    np.testing.assert_allclose(results["cka"]["model, model"], expected)
    words = np.concatenate(seen, axis=1)[1]
    assert results["anisotropy"]["model"][1].value == pytest.approx(
        mean_cosine(words, np.arange(60), config(files)).value, abs=0.1
    )


def test_each_kind_of_tags_has_its_own_probe(files):
    report = representations.run(
        config(files, dev=BOTH, test=("test.conllu", "chunks.txt"))
    )
    found = report.results["probes"]
    assert {k: x.num_tested for k, x in found.items()} == {
        "part of speech": 72,
        "chunk": 2,
    }
    assert found["chunk"].num_learnt == 2


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"dev": ("chunks.txt",)}, "must have the tags that --dev has: chunk"),
        ({"words": ("goods",)}, "good ##s"),
        ({"test": ("chunks.txt",)}, "4 words or more.*Received: 2"),
        ({"dev": ("long.conllu",)}, "--dev must have words that fit"),
        (
            {"dev": ("half.conllu",)},
            "two tags or more .* that fit in a row. Received: only ADJ",
        ),
        (
            {"dev": BOTH, "test": ("test.conllu", "long.txt")},
            "--test must have words with tags of the kind chunk that fit",
        ),
    ],
)
def test_settings_that_cannot_be_met_are_refused(files, values, problem):
    long = "good" + "ly" * 9  # more pieces than a row of 8 has room for
    for name, text in (
        ("long.conllu", f"1\t{long}\t_\tADJ\n2\tfilm\t_\tNOUN\n"),
        ("half.conllu", f"1\tgood\t_\tADJ\n2\t{long}\t_\tNOUN\n"),
        ("long.txt", f"{long} JJ B-NP\nfilm NN I-NP\n"),
    ):
        (files / name).write_text(text)
    with pytest.raises(UserError, match=problem):
        representations.run(config(files, max_seq_length=8, **values))
