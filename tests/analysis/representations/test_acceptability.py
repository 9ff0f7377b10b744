"""Probes of perturbed sentences, on states whose information is known."""

import analysis_configs
import numpy as np
import pytest
import tiny_networks

from electra_tf.analysis.reporting import reports
from electra_tf.analysis.representations import acceptability, hidden_states
from electra_tf.util.errors import UserError


def chunks(num_sentences, seed):
    """Returns sentences in alphabetical order, half of them with a verb."""
    random = np.random.default_rng(seed)
    sentences = []
    for i in range(num_sentences):
        words = random.choice(list("bcdefg"), 5, replace=False)
        form = ("is", "are", "x", "y")[i % 4]
        sentences.append(["A", *sorted(words), form])
    return "\n\n".join(
        "\n".join(f"{word} NN B-NP" for word in words) for words in sentences
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("acceptability")
    (root / "train.txt").write_text(chunks(200, 0))
    (root / "test.txt").write_text(chunks(100, 1))
    (root / "short.txt").write_text("a NN B-NP\nb NN B-NP\n")
    tiny_networks.save(tiny_networks.discriminator(), root / "model")
    return root


def config(files, *, dev="train.txt", test="test.txt", **values):
    return analysis_configs.config(
        files / test,
        what="acceptability",
        dev=(str(files / dev),) if dev else (),
        **{"model": str(files / "model"), **values},
    )


def order_states(readers, sentences, *, batch_size):
    """Yields states of two layers: noise, and whether letters descend.

    The groups cut pairs in two.
    """
    random = np.random.default_rng(len(sentences))
    for first in range(0, len(sentences), 7):
        group = sentences[first : first + 7]
        numbers, places, descents = [], [], []
        for number, words in enumerate(group, first):
            for i, word in enumerate(words):
                numbers.append(number)
                places.append(i)
                before = words[i - 1] if i else ""
                descents.append(len(word) == len(before) == 1 and word < before)
        noise = random.normal(size=(len(numbers), 3))
        informative = np.stack([descents, *np.zeros((2, len(numbers)))], axis=1)
        yield hidden_states.WordStates(
            np.array(numbers),
            np.array(places),
            [np.stack([noise, informative])],
        )


def test_a_probe_detects_only_what_the_mean_state_encodes(files, monkeypatch):
    monkeypatch.setattr(hidden_states, "read", order_states)
    found = acceptability.run(config(files)).results["probes"]
    swaps, verbs = found["word swap"], found["agreement"]
    assert (swaps.num_learnt, swaps.num_tested) == (400, 200)
    assert (verbs.num_learnt, verbs.num_tested) == (200, 100)
    noise, informative = swaps.accuracies["model"]
    # A swap with the verb, in a tenth of the sentences, leaves no descent.
    assert 0.9 < informative.value < 1
    assert noise.low < 0.5 < noise.high
    assert verbs.accuracies["model"][1].value == 0.5
    assert swaps.baselines["always the same answer"].value == 0.5


def test_a_twin_equal_to_the_model_has_equal_accuracies(files):
    report = acceptability.run(config(files, twin=str(files / "model")))
    for of_one in report.results["probes"].values():
        same = of_one.accuracies
        assert same["model"] == same["twin"] and len(same["model"]) == 3
        assert all(x == (0, 0, 0) for x in of_one.differences)
    assert set(report.headline) == {
        "word swap accuracy, last layer",
        "agreement accuracy, last layer",
    }
    drawn = analysis_configs.draw(report)
    assert set(drawn) == {"probes_word_swap", "probes_agreement"}
    reports.plain(report.results)


def test_a_sentence_that_fits_in_no_row_is_left_out_with_its_pair(
    files, monkeypatch
):
    """A perturbed sentence may have more tokens than its original."""

    def all_but_one_fit(readers, pairs):
        return np.delete(np.arange(len(pairs)), 1)

    monkeypatch.setattr(hidden_states, "read", order_states)
    monkeypatch.setattr(hidden_states, "fitting", all_but_one_fit)
    found = acceptability.run(config(files)).results["probes"]
    assert found["word swap"].num_learnt == 398
    assert found["word swap"].num_tested == 198


def test_a_perturbation_that_does_not_apply_is_left_out(
    files, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(hidden_states, "read", order_states)
    for name in ("train.txt", "test.txt"):
        text = (files / name).read_text()
        text = text.replace("is NN", "x NN").replace("are NN", "y NN")
        (tmp_path / name).write_text(text)
    given = config(tmp_path, model=str(files / "model"))
    assert [*acceptability.run(given).results["probes"]] == ["word swap"]
    errors = capsys.readouterr().err
    assert "agreement is left out: it applies to none of the 200" in errors


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            {"test": "short.txt"},
            "--dev and --test must have sentences that can",
        ),
        ({"dev": ""}, "`dev` must name files"),
        ({"max_seq_length": 4}, "must fit in a row of every model"),
    ],
)
def test_a_split_without_usable_sentences_is_refused(files, values, problem):
    with pytest.raises(UserError, match=problem):
        acceptability.run(config(files, **values))
