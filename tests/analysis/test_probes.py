"""Probes: states of words, baselines, the layer chosen on dev, and CKA."""

import itertools

import numpy as np
import pytest
import tiny_networks
from tiny_analysis import config, draw

from electra_tf.analysis import probes
from electra_tf.analysis.probes import BASELINE, SWAP, Encoder, Items
from electra_tf.util import seeds

TAGS = {"good": "ADJ", "bad": "ADJ", "film": "NOUN", "plot": "NOUN", "it": "X"}
POS = "part of speech"
SENTENCES = [
    ("the", "films", "is", "good"),
    ("badly",),
    ("it", "was", "a", "very", "bads", "plot"),
]
STARTS = [[1, 2, 4, 5], [1], [1, 2, 3, 4, 5, 7]]


def _by_hand(network, sentence, starts):
    """Computes the states of one sentence alone, without padding."""
    ids = network.read([" ".join(sentence)])
    output = network.encoder(
        ids["input_ids"], ids["input_mask"], ids["segment_ids"]
    )
    layers = [output.embedding_output, *output.all_layers]
    return np.stack([layer.numpy()[0, starts] for layer in layers])


def test_a_state_is_that_of_the_first_piece():
    network = tiny_networks.discriminator(dtype="float32", max_seq_length=10)
    encoder = Encoder(network, 2)
    pairs = zip(SENTENCES, STARTS, strict=True)
    states = [_by_hand(network, *x) for x in pairs]
    found = encoder.states(SENTENCES)
    np.testing.assert_allclose(found, np.concatenate(states, 1), atol=1e-5)
    means = np.stack([x.mean(1) for x in states], 1)
    found = encoder.states(SENTENCES, of_sentences=True)
    np.testing.assert_allclose(found, means, atol=1e-5)
    long = ("it", *["very"] * 8)
    assert encoder.can_read([*SENTENCES, long]) == [True, True, True, False]
    ((ids, starts),) = encoder.rows([("\u200b",)])
    assert ids[1] == tiny_networks.VOCABULARY.unk_id and starts == [1]


def test_swaps_exchange_two_inner_words():
    random = np.random.default_rng(0)
    words = ("The", "cat", "sat", "Sat", "on", "3", "mats")
    forms = {probes.swapped(words, random)[1] for _ in range(60)}
    assert forms == {
        ("The", "sat", "cat", "Sat", "on", "3", "mats"),
        ("The", "cat", "sat", "on", "Sat", "3", "mats"),
    }
    assert probes.swapped(words[:4], random) == []
    assert probes.swapped(("a",) * 29, random) == []


def _items(num_groups, seed):
    random = np.random.default_rng(seed)
    words = random.choice(list(TAGS), num_groups)
    labels = np.array([TAGS[word] for word in words])
    return Items([(x,) for x in words], labels, np.arange(num_groups), words)


class _Layers:
    """Layer 0 is noise; layer 1 fits on all of dev, and layer 2 on test."""

    def states(self, sentences, *, of_sentences):
        codes = [
            ["ADJ", "NOUN", "X"].index(TAGS[word]) for (word,) in sentences
        ]
        clean = np.eye(5)[codes]
        noise = np.random.default_rng(0).normal(size=clean.shape)
        scales = (0.05, 0.9) if len(sentences) == 300 else (0.5, 0.01)
        return np.stack([noise, *(clean + x * noise for x in scales)])


def test_the_layer_is_chosen_on_dev_and_not_on_test():
    found = probes.probe(
        {"model": _Layers()}, _items(300, 0), _items(200, 1), config()
    )
    model = found["networks"]["model"]
    assert model["best_layer"] == 1 and model["best"] == model["layers"][1]
    assert model["layers"][2].value > model["layers"][1].value  # better on test
    assert found["num_train"] == 240  # four fifths
    assert found["baselines"][BASELINE] == (1, 1, 1)


def _conllu(num_sentences, seed):
    """Returns sentences in which every word determines its tag."""
    random = np.random.default_rng(seed)
    rows = random.choice(list(TAGS), (num_sentences, 6))
    return "\n\n".join(
        "\n".join(f"{i}\t{x}\t_\t{TAGS[x]}" for i, x in enumerate(row, 1))
        for row in rows
    )


@pytest.fixture
def run(tmp_path):
    (tmp_path / "dev.conllu").write_text(_conllu(20, 0))
    (tmp_path / "test.conllu").write_text(_conllu(12, 1))
    with seeds.seed_initializers(0):  # the seed of the analysis
        tiny_networks.save(tiny_networks.discriminator(), tmp_path / "model")
        twin = tiny_networks.generator(tiny_networks.PERMUTED)
        tiny_networks.save(twin, tmp_path / "twin")

    def make(twin, dev=()):
        fields = {"model": str(tmp_path / "model"), "dev": dev}
        fields["twin"] = str(tmp_path / twin)
        return probes.run(config(tmp_path / "test.conllu", **fields))

    return make


def test_a_twin_equal_to_the_model_has_equal_results(run, tmp_path):
    report = run("model", dev=(str(tmp_path / "dev.conllu"),))
    results = report.results
    between = results["cka"]["model, twin"]
    np.testing.assert_allclose(between, between.T)
    np.testing.assert_allclose(np.diagonal(between), 1)
    assert between[0, 2] < 0.999
    assert {*results["probes"]} == {POS, SWAP}
    for found in results["probes"].values():
        networks = found["networks"]
        assert list(networks) == ["model", "twin", "untrained"]
        assert networks["model"] == networks["twin"]
        own, other = (networks[x]["layers"] for x in ("model", "untrained"))
        assert len(own) == len(other) == 3 and own != other
    assert results["probes"][POS]["num_test"] == 72
    draw(report)


def _random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def _hsic_by_definition(x, y):
    """Computes HSIC as the mean over all quadruples of different words.

    E[k l] + E[k] E[l] - 2 E[k l of one word in common], of different words.
    """
    k, other = x @ x.T, y @ y.T
    terms = [
        k[i, j] * (other[i, j] + other[q, r] - 2 * other[i, q])
        for i, j, q, r in itertools.permutations(range(len(x)), 4)
    ]
    return np.mean(terms)


def test_hsic_is_its_definition():
    layers = [_random(7, 3), _random(7, 5, seed=1) + 2.0]
    expected = [[_hsic_by_definition(x, y) for y in layers] for x in layers]
    np.testing.assert_allclose(probes.hsic(layers), expected, rtol=1e-9)


def test_cka_is_invariant_to_rotation_scale_and_shift():
    x, y = _random(40, 6), _random(40, 9, seed=1)
    y[:, :6] += x
    rotation, _ = np.linalg.qr(_random(6, 6, seed=2))
    found = probes.cka([x, y, -3.0 * x @ rotation + 5.0], 0)
    assert found[0, 2] == pytest.approx(1)
    assert found[0, 1] == pytest.approx(found[2, 1])
    assert 0.05 < found[0, 1] < 0.95
