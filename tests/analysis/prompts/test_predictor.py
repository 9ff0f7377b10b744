"""Prediction by prompts, against results that are computed by hand."""

import json

import analysis_configs
import pytest
import tiny_networks
import tiny_prompts
import tiny_scoring

import electra_tf
from electra_tf import predict
from electra_tf.analysis import loaded_networks
from electra_tf.analysis.prompts import predictor
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError


@pytest.fixture
def templates(tmp_path):
    path = tmp_path / "prompts.cfg"
    path.write_text(tiny_prompts.TEMPLATES)
    return path


@pytest.fixture
def fake_scorer(monkeypatch):
    """Replaces every model by a discriminator with known scores."""
    monkeypatch.setattr(
        loaded_networks, "by_kind", lambda *_: {"discriminator": None}
    )
    monkeypatch.setattr(
        predictor, "NetworkScorer", lambda *_: tiny_prompts.FakeScorer()
    )


def _examples(directory, *rows):
    path = directory / "examples.jsonl"
    rows = [{"text": text, "label": label} for text, label in rows]
    analysis_configs.write_lines(path, rows)
    return path


def test_scores_of_an_empty_text_are_subtracted(templates, fake_scorer):
    predict = electra_tf.PromptPredictor("model", templates)
    found = predict(["very", {"text": "plot"}])
    # "bad" scores -1.75 and -0.875, then 0.25 and 0.125, by template; in the
    # empty text -0.75 and -0.375. The means are subtracted.
    assert found == [
        {"prediction": "p", "scores": {"n": -0.75, "p": 0.75}},
        {"prediction": "n", "scores": {"n": 0.75, "p": -0.75}},
    ]


def test_examples_train_a_classifier_on_the_scores(
    templates, fake_scorer, tmp_path
):
    path = _examples(tmp_path, *[("very", "n"), ("plot", "p")] * 3)
    predict = electra_tf.PromptPredictor("model", templates, examples_file=path)
    found = predict(["very", "plot"])  # whose labels are swapped
    assert [x["prediction"] for x in found] == ["n", "p"]
    for answer in found:
        assert answer.keys() == {"prediction", "probabilities"}
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        assert answer["probabilities"][answer["prediction"]] > 0.5


def test_examples_must_be_of_two_classes(templates, fake_scorer, tmp_path):
    path = _examples(tmp_path, ("very", "p"), ("plot", "p"))
    with pytest.raises(
        UserError, match="two classes or more. Received: 2 of p"
    ):
        electra_tf.PromptPredictor("model", templates, examples_file=path)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"batch_size": 0}, "`batch_size` must be at least 1"),
        ({"precision": "fp16"}, "`precision` must be one of float32, bfloat16"),
    ],
)
def test_options_are_checked(templates, tmp_path, options, problem):
    path = tiny_networks.save(tiny_networks.discriminator(), tmp_path / "model")
    with pytest.raises(UserError, match=problem):
        electra_tf.PromptPredictor(path, templates, **options)


def test_model_must_give_the_score(templates, tmp_path):
    path = tiny_networks.save(tiny_networks.discriminator(), tmp_path / "model")
    with pytest.raises(UserError, match="gives discriminator; asked for: mlm"):
        electra_tf.PromptPredictor(path, templates, score="mlm")


@pytest.mark.slow
def test_correctors_have_the_score_of_their_generator(tmp_path):
    model, path = tiny_scoring.write_run(tmp_path, objective="replace_mlm")
    templates = tmp_path / "prompts.cfg"
    templates.write_text("template: {text} {label}\nlabel a: w3\nlabel b: w4\n")
    (found,) = electra_tf.PromptPredictor(path, templates)(["w5 w6"])
    in_text = tiny_scoring.mlm(model, tiny_scoring.ids_of("w5 w6 w3"), [3])[0]
    alone = tiny_scoring.mlm(model, tiny_scoring.ids_of("w3"))[0]
    expected = (in_text - alone)[[8, 9]]  # the ids of w3 and w4
    assert list(found["scores"].values()) == pytest.approx(expected, abs=1e-4)


def test_command_answers_rows_of_a_file(templates, tmp_path, capsys):
    path = tiny_networks.save(tiny_networks.discriminator(), tmp_path / "model")
    (tmp_path / "in.tsv").write_text("label\ttext\np\tvery\nn\tplot\n")
    flags = [f"--model={path}", f"--templates={templates}"]
    flags += [f"--input={tmp_path}/in.tsv"]
    predict.main(config_flags.parse(predict.PredictConfig, flags))
    found = list(map(json.loads, capsys.readouterr().out.splitlines()))
    expected = electra_tf.PromptPredictor(path, templates)(["very", "plot"])
    for line, answer in zip(found, expected, strict=True):
        assert line["prediction"] == answer["prediction"]
        assert line["scores"] == pytest.approx(answer["scores"], abs=1e-6)
