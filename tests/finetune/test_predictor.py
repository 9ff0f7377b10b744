"""Answers of a trained model to items of each kind of task."""

import pathlib

import numpy as np
import pytest
import tiny_finetuning as tiny

import electra_tf
from electra_tf.data import answering
from electra_tf.util.errors import UserError

TEXTS = ["good film", "", "the plot was very very bad", "bad " * 90, "it"]
TAGS = ["B-PER", "E-PER", "O", "S-PER"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    other_head = tiny.task("sst", head="hugging_face")
    qa_lengths = {"max_query_length": 8, "doc_stride": 8}
    other_answers = tiny.task("squad", qa_na_threshold=9.0, **qa_lengths)
    return {
        "other_head": tiny.write_trained(root / "head", other_head),
        "other_answers": tiny.write_trained(root / "answers", other_answers),
        "sst": tiny.write_trained(root / "sst", "sst"),
        "other": tiny.write_trained(root / "trial" / "model", "sst", seed=1),
        "sts": tiny.write_trained(root / "sts", "sts", seed=2),
        "squad": tiny.write_trained(root / "squad", "squad"),
        "squad_1": tiny.write_trained(root / "squad_1", "squad", seed=1),
        "ner": tiny.write_trained(root / "ner", "ner", labels=TAGS),
    }


@pytest.fixture(scope="module")
def sst(paths):
    return electra_tf.Predictor(paths["sst"])


def _probabilities(answers):
    return np.array([list(x["probabilities"].values()) for x in answers])


def test_answers_are_in_order_and_independent_of_the_batch(
    sst, paths, monkeypatch
):
    answers = sst(TEXTS)
    found = _probabilities(answers)
    assert np.ptp(found[:, 0]) > 0.05  # so that their order shows
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-6)
    for answer in answers:
        assert answer.keys() == {"prediction", "probabilities"}
        shares = answer["probabilities"]
        assert list(shares) == ["0", "1"]
        assert answer["prediction"] == max(shares, key=shares.get)
    alone = _probabilities([sst([text])[0] for text in TEXTS])
    np.testing.assert_allclose(found, alone, atol=1e-6)
    monkeypatch.setattr(answering, "BLOCK_SIZE", 2)
    blocks = _probabilities(sst.stream(iter(TEXTS)))
    np.testing.assert_allclose(found, blocks, atol=1e-6)


def test_an_ensemble_answers_with_the_mean_probability(sst, paths):
    trial = pathlib.Path(paths["other"]).parent  # loads the model in it
    both = electra_tf.Predictor(f"{paths['sst']},{trial}")
    other = electra_tf.Predictor(trial)
    parts = [_probabilities(x(TEXTS)) for x in (sst, other)]
    assert np.abs(parts[0] - parts[1]).max() > 0.05
    found = _probabilities(both(TEXTS))
    np.testing.assert_allclose(found, np.mean(parts, 0), atol=1e-6)


def test_every_word_has_a_tag_however_long_the_sentence(paths):
    predict = electra_tf.Predictor(paths["ner"])
    words = ["good", "films", "x y", "plot"] * 20  # more than fit a row of 32
    long, short = predict([words, "the  plot"])
    assert long["words"] == tuple(words) and short["words"] == ("the", "plot")
    for answer in (long, short):
        assert len(answer["prediction"]) == len(answer["words"])
        assert len(answer["confidences"]) == len(answer["words"])
        assert {*answer["prediction"]} <= {*TAGS}
        assert all(0.25 <= share <= 1 for share in answer["confidences"])
    (same,) = electra_tf.Predictor([paths["ner"]] * 2)([words])
    assert same["prediction"] == long["prediction"]


def test_a_question_is_answered_from_all_of_its_context(paths):
    context = "The  good film was bad. " + "it is very " * 20 + "THE plot."
    question = ("what was it", context)
    answers = []
    models = [paths["squad"], paths["squad_1"]]
    for path in (*models, models):
        (answer,) = electra_tf.Predictor(path)([question])
        assert answer["question"] == question[0]
        assert len(answer["nbest"]) > 1
        for found in answer["nbest"]:
            assert found["text"] in " ".join(context.split())
        total = sum(found["probability"] for found in answer["nbest"])
        assert total == pytest.approx(1, abs=1e-5)
        answers.append(answer)
    one, two, both = (answer["null_odds"] for answer in answers)
    # The minimum of means over rows is at least the mean of the minima.
    assert both >= (one + two) / 2 - 1e-4 and one != two


def test_models_that_differ_are_no_ensemble(paths):
    for names in (
        ("sst", "sts"),
        ("sst", "other_head"),
        ("squad", "other_answers"),
        (),
    ):
        with pytest.raises(UserError):
            electra_tf.Predictor([paths[name] for name in names])
