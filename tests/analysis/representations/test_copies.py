"""Probes for copies, on states and logits whose information is known."""

import analysis_configs
import numpy as np
import pytest
import tensorflow as tf
import tiny_networks

from electra_tf.analysis.reporting import reports
from electra_tf.analysis.representations import copies, hidden_states
from electra_tf.model.networks import ElectraDiscriminator
from electra_tf.util.errors import UserError

LETTERS = "abcdefghijklmnopqrstuvwxy"


def _text(num_sentences, length=12):
    """Returns sentences, none of which has a word of another one."""
    sentences = (
        [f"{LETTERS[n // 25]}{LETTERS[n % 25]}{x}" for x in LETTERS[:length]]
        for n in range(num_sentences)
    )
    return "\n\n".join(
        "\n".join(f"{word} NN B-NP" for word in words) for words in sentences
    )


def _readable_text(num_sentences):
    """Returns sentences of words of one or two pieces of the vocabulary."""
    random = np.random.default_rng(0)
    words = [x + end for x in tiny_networks.WORDS for end in ("", "s", "ly")]
    return "\n\n".join(
        "\n".join(
            f"{x} NN B-NP" for x in random.choice(words, 12, replace=False)
        )
        for _ in range(num_sentences)
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("copies")
    (root / "train.txt").write_text(_text(100))
    (root / "test.txt").write_text(_text(50))
    (root / "readable.txt").write_text(_readable_text(60))
    (root / "short.txt").write_text(_text(9, length=9))
    tiny_networks.save(tiny_networks.discriminator(), root / "model")
    tiny_networks.save(tiny_networks.generator(), root / "generator")
    return root


def _config(files, *, dev="train.txt", test="test.txt", **values):
    return analysis_configs.config(
        files / test,
        what="copies",
        dev=(str(files / dev),) if dev else (),
        **{"model": str(files / "model"), **values},
    )


def _known_states(readers, sentences, *, batch_size):
    """Yields states of three layers: constant, noise, number of copies."""
    random = np.random.default_rng(len(sentences))
    for first in range(0, len(sentences), 7):
        group = sentences[first : first + 7]
        numbers = [n for n, x in enumerate(group, first) for _ in x]
        places = [i for x in group for i in range(len(x))]
        counts = [x.count(word) for x in group for word in x]
        layers = np.zeros((3, len(numbers), 16))
        layers[1] = random.normal(size=layers[1].shape)
        layers[2, :, 0] = counts
        yield hidden_states.WordStates(
            np.array(numbers), np.array(places), [layers] * len(readers)
        )


@pytest.fixture
def known(monkeypatch):
    """Makes states known, and the logit -2 for each occurrence of the word."""
    monkeypatch.setattr(hidden_states, "read", _known_states)

    def answer(self, states, ids):
        return {"logits": tf.constant(-2.0 * states[..., 0])}

    monkeypatch.setattr(ElectraDiscriminator, "answer", answer)


def test_a_probe_finds_only_what_the_state_of_the_word_encodes(files, known):
    found = copies.run(_config(files)).results["probes"]["copied word"]
    assert (found.num_learnt, found.num_tested) == (200, 100)
    constant, noise, count = found.accuracies["model"]
    assert constant.value == 0.5 and count == (1, 1, 1)
    assert noise.low < 0.5 < noise.high
    assert found.baselines["always the same answer"].value == 0.5


def test_the_effect_is_the_logit_with_a_copy_minus_that_without(files, known):
    report = copies.run(_config(files))
    effects = report.results["effects"]["model"]
    assert effects == {"original": (-2, -2, -2), "foreign": (-2, -2, -2)}
    assert report.headline == {
        "copied word accuracy, last layer": 1,
        "effect of a copy on the logit": -2,
    }
    _, table = report.tables
    assert table.rows == [
        ["model", "original", -2, -4, -2, -2, -2],
        ["model", "foreign", -2, -4, -2, -2, -2],
    ]


def test_logits_are_those_of_the_words_in_their_sentences(files, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        copies.probe_findings, "of_balanced_labels", lambda *_: None
    )
    monkeypatch.setattr(
        copies, "_report", lambda found, logits, config: seen.update(logits)
    )
    config = _config(files, test="readable.txt")
    copies.run(config)
    network = ElectraDiscriminator.from_checkpoint(
        str(files / "model"), max_seq_length=32
    )
    examples = copies._examples("test", config)
    assert len(seen["model"]) == len(examples) > 9
    for example, logits in zip(examples[:4], seen["model"][:4], strict=True):
        for i, versions in enumerate((example.original, example.foreign)):
            for j, words in enumerate(versions):
                pieces = network.reader.tokenize(tf.constant(words)).to_list()
                start = 1 + sum(map(len, pieces[: example.index]))
                outputs = network(tf.constant([" ".join(words)]))
                expected = outputs["logits"].numpy()[0, start]
                np.testing.assert_allclose(logits[i, j], expected, atol=1e-5)


def test_embeddings_know_nothing_of_copies(files):
    config = _config(
        files,
        dev="readable.txt",
        test="readable.txt",
        twin=str(files / "generator"),
    )
    report = copies.run(config)
    found = report.results["probes"]["copied word"]
    for layers in found.accuracies.values():
        assert len(layers) == 3 and layers[0].value == 0.5
    assert [*report.results["effects"]] == ["model"]
    assert set(analysis_configs.draw(report)) == {"probes_copied_word"}
    reports.plain(report.results)


def test_a_masked_language_model_has_no_effect_on_a_logit(files):
    report = copies.run(_config(files, model=str(files / "generator")))
    assert report.results["effects"] == {} and len(report.tables) == 1
    assert [*report.headline] == ["copied word accuracy, last layer"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"test": "short.txt"}, "--test must have .* none of 9"),
        ({"dev": "short.txt"}, "--dev must have .* none of 9"),
        ({"dev": ""}, "`dev` must name files"),
        ({"max_seq_length": 8}, "must fit in a row of every model"),
    ],
)
def test_a_split_without_usable_sentences_is_refused(files, values, problem):
    with pytest.raises(UserError, match=problem):
        copies.run(_config(files, **values))
