"""Classification by prompts, against results that are computed by hand."""

import analysis_configs
import numpy as np
import pytest
import tiny_networks
import tiny_prompts

from electra_tf.analysis.prompts import classification as prompts
from electra_tf.analysis.prompts import templates as prompt_templates
from electra_tf.analysis.prompts.prompt_examples import LabelledExample
from electra_tf.analysis.reporting import reports
from electra_tf.util.errors import UserError

POSITIVE, NEGATIVE = {"text": "very"}, {"text": "plot"}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "prompts.cfg").write_text(tiny_prompts.TEMPLATES)
    rows = [("very", "p")] * 6 + [("plot", "n")] * 3 + [("plot", "p")]
    rows = [{"text": text, "label": label} for text, label in rows]
    analysis_configs.write_lines(tmp_path / "test.jsonl", rows)
    return tmp_path


def config(files, **values):
    return analysis_configs.config(
        *(files / "test.jsonl",),
        **{
            "what": "prompts",
            "templates": str(files / "prompts.cfg"),
            **values,
        },
    )


@pytest.fixture
def fake_scorer(monkeypatch):
    monkeypatch.setattr(
        prompts, "_scorers", lambda config: {"fake": tiny_prompts.FakeScorer()}
    )


def test_scores_are_by_example_template_and_label(files):
    given = prompt_templates.read(str(files / "prompts.cfg"))
    found = prompts.label_scores(
        tiny_prompts.FakeScorer(), given, [POSITIVE, NEGATIVE]
    )
    np.testing.assert_array_equal(
        found,
        [[[-1.75, 1.75], [-0.875, 0.875]], [[0.25, -0.25], [0.125, -0.125]]],
    )


def test_accuracy_is_that_of_the_best_label_word(files, fake_scorer):
    report = prompts.run(config(files))
    results = reports.plain(report.results)["scores"]["fake"]
    # The fake answers p to "very" and n to "plot": one of ten is wrong.
    assert [x["value"] for x in results["raw"]] == [0.9] * 3
    assert results["empty"] == [[-0.75, 0.75], [-0.375, 0.375]]
    assert results["raw_shares"] == [0.4, 0.6]
    assert report.results["majority"].value == 0.7
    assert report.headline["fake accuracy, raw"] == 0.9


def test_calibration_subtracts_the_scores_of_an_empty_text(
    files, fake_scorer, monkeypatch
):
    biased = tiny_prompts.FakeScorer._score
    monkeypatch.setattr(  # prefers "good" everywhere
        tiny_prompts.FakeScorer,
        "_score",
        lambda self, row: (
            biased(self, row)
            + 9.0 * (tiny_networks.VOCABULARY.ids["good"] in row.ids)
        ),
    )
    results = prompts.run(config(files)).results["scores"]["fake"]
    assert results.raw[-1].value == 0.7  # always p
    assert results.raw_shares == [0, 1]
    assert results.calibrated[-1].value == 0.9


def test_few_shots_learn_from_the_label_scores(files, fake_scorer):
    rows = [{"text": x, "label": y} for x, y in (("very", "n"), ("plot", "p"))]
    dev = files / "dev.jsonl"
    analysis_configs.write_lines(dev, rows * 5)
    given = config(files, dev=(str(dev),), shots=3)
    results = prompts.run(given).results["scores"]["fake"]
    # The labels of these --dev examples are swapped.
    assert results.few_shot.value == pytest.approx(0.1)
    assert results.raw[-1].value == 0.9


def test_draws_of_shots_are_balanced_and_different(files):
    examples = [
        LabelledExample({"text": str(i)}, "np"[i % 2]) for i in range(40)
    ]
    shots = prompts.draw(examples, ["n", "p"], config(files, shots=4))
    drawn = [tuple(x.texts["text"] for x in one) for one in shots]
    for one, names in zip(shots, drawn, strict=True):
        labels = [x.label for x in one]
        assert labels.count("n") == labels.count("p") == 4
        assert len(set(names)) == 8
    assert len(drawn) == len(set(drawn)) == prompts.NUM_DRAWS
    with pytest.raises(UserError, match="20 of n. Lower --shots"):
        prompts.draw(examples, ["n", "p"], config(files, shots=21))


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {
        kind: tiny_networks.save(getattr(tiny_networks, kind)(), root / kind)
        for kind in ("discriminator", "generator")
    }


def test_each_network_gives_its_own_score(files, directories):
    given = config(
        files, model=directories["discriminator"], twin=directories["generator"]
    )
    report = prompts.run(given)
    assert [*report.results["scores"]] == ["discriminator", "twin's mlm"]
    analysis_configs.draw(report)
    again = config(
        files,
        model=directories["discriminator"],
        generator=directories["generator"],
        scores=("mlm",),
    )
    (found,) = prompts.run(again).results["scores"].values()
    expected = report.results["scores"]["twin's mlm"]
    assert reports.plain(found) == reports.plain(expected)


def test_twin_and_generator_keep_their_vocabularies(files, directories):
    other = tiny_networks.generator(tiny_networks.PERMUTED)
    other = tiny_networks.save(other, files / "other")
    given = config(
        files,
        model=directories["discriminator"],
        twin=other,
        generator=other,
        vocab_file=f"{directories['discriminator']}/vocab.txt",
    )
    found = {
        name: scorer.reader.vocabulary
        for name, scorer in prompts._scorers(given).items()
    }
    assert found == {
        "discriminator": tiny_networks.VOCABULARY,
        "mlm": tiny_networks.PERMUTED,
        "twin's mlm": tiny_networks.PERMUTED,
    }


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            {"scores": ("two_tower",), "templates": "none"},
            "Received: two_tower",
        ),
        ({"shots": 4}, "Set --dev"),
        ({"model": "discriminator", "scores": ("mlm",)}, "Set --scores, or"),
        (
            {"model": "discriminator", "generator": "discriminator"},
            "with a masked language model",
        ),
        ({"model": "discriminator", "max_seq_length": 33}, "from 3 to 32"),
    ],
)
def test_settings_that_cannot_be_met_are_refused(
    files, directories, values, problem
):
    values = {
        k: directories.get(v, v) if isinstance(v, str) else v
        for k, v in values.items()
    }
    with pytest.raises(UserError, match=problem):
        prompts.run(config(files, **values))
