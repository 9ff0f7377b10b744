"""Answers of a trained model to items of each kind of task."""

import numpy as np
import pytest
import tiny_finetuning as tiny

import electra_tf
from electra_tf.data import answering

TEXTS = ["good film", "", "the plot was very very bad", "bad " * 90, "it"]
TAGS = ["B-PER", "E-PER", "O", "S-PER"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {
        "sst": tiny.write_trained(root / "sst", "sst"),
        "squad": tiny.write_trained(root / "squad", "squad"),
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


def test_a_question_is_answered_from_all_of_its_context(paths):
    context = "The  good film was bad. " + "it is very " * 20 + "THE plot."
    question = ("what was it", context)
    (answer,) = electra_tf.Predictor(paths["squad"])([question])
    assert answer["question"] == question[0]
    assert len(answer["nbest"]) > 1
    for found in answer["nbest"]:
        assert found["text"] in " ".join(context.split())
    total = sum(found["probability"] for found in answer["nbest"])
    assert total == pytest.approx(1, abs=1e-5)
