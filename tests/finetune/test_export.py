"""Answers of `Predictor`, and of SavedModels that are run in a session."""

import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.data import answering
from electra_tf.export_saved_model import ExportConfig, main
from electra_tf.finetune import export
from electra_tf.finetune.finetuned import Predictor

TEXTS = ["good films", "", "the plot was very bad", "bad " * 90]
TAGS = ["B-PER", "E-PER", "O", "S-PER"]


def _load(path):
    """Loads the signature into a session, as programs outside Python do."""
    graph = tf.Graph()
    session = tf.compat.v1.Session(graph=graph)
    with graph.as_default():
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
    signature = loaded.signature_def["serving_default"]
    names = {k: v.name for k, v in signature.outputs.items()}

    def run(**feeds):
        feeds = {signature.inputs[k].name: v for k, v in feeds.items()}
        return session.run(names, feeds)

    return run


def _probabilities(answers):
    return np.array([list(x["probabilities"].values()) for x in answers])


def test_answers_are_in_order_and_independent_of_the_batch(
    tmp_path, monkeypatch
):
    predict = Predictor(tiny.write_trained(tmp_path, "sst"))
    answers = predict(TEXTS)
    found = _probabilities(answers)
    assert np.ptp(found[:, 0]) > 0.05  # so that their order shows
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-6)
    for answer in answers:
        shares = answer["probabilities"]
        assert list(shares) == ["0", "1"]
        assert answer["prediction"] == max(shares, key=shares.get)
    alone = _probabilities([predict([text])[0] for text in TEXTS])
    np.testing.assert_allclose(found, alone, atol=1e-6)
    monkeypatch.setattr(answering, "BLOCK_SIZE", 2)
    blocks = _probabilities(predict.stream(iter(TEXTS)))
    np.testing.assert_allclose(found, blocks, atol=1e-6)


def test_a_classifier_answers_texts_and_ids(tmp_path, capsys):
    trial = tmp_path / "sst_model_1"
    model = tiny.write_trained(trial / "model", "sst")
    main(ExportConfig(model=str(trial)))
    root = trial / "saved_model"
    paths = [root / "text/1", root / "ids/1"]
    shown = "".join(f"Exported {path}\n" for path in paths)
    assert capsys.readouterr().out == shown
    assert (root / "labels.txt").read_text("utf-8") == "0\n1\n"
    answers = Predictor(model)(TEXTS)
    expected = _probabilities(answers)
    run = _load(paths[0])
    found = run(text=TEXTS)
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6)
    names = [answer["prediction"].encode() for answer in answers]
    assert found["prediction"].tolist() == names
    ids = np.int32([[tiny.VOCABULARY.cls_id, 5, 7, 15, 3, 0]])
    feeds = {"input_ids": ids, "input_mask": np.int32(ids > 0)}
    found = _load(paths[1])(**feeds, segment_ids=0 * ids)["probabilities"]
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)
    empty = run(text=np.array([], object))
    assert empty["probabilities"].shape == (0, 2)


@pytest.mark.slow
def test_a_regression_answers_pairs(tmp_path):
    predictor = Predictor(tiny.write_trained(tmp_path / "sts", "sts", seed=2))
    run = _load(export.export(predictor, tmp_path)[0])
    pairs = [("good", "bad film"), ("very " * 90, "a " * 9), ("", "it")]
    first, second = zip(*pairs, strict=True)
    values = run(text=first, text_b=second)["prediction"]
    expected = [answer["prediction"] for answer in predictor(pairs)]
    np.testing.assert_allclose(values, expected, atol=1e-5)
    assert len({0, 5, *expected}) == 4  # the ends of the scale, and others


def test_a_tagger_answers_every_word_of_a_row(tmp_path):
    model = tiny.write_trained(tmp_path / "ner", "ner", labels=TAGS)
    predictor = Predictor(model)
    words = ["good", "films", "x y", "plot"] * 20  # more than fit a row of 32
    (answer,) = predictor([words])
    assert answer["words"] == tuple(words)
    assert {*answer["prediction"]} <= {*TAGS}
    assert all(0.25 <= share <= 1 for share in answer["confidences"])
    assert len(answer["prediction"]) == len(answer["confidences"]) == 80
    run, run_of_ids = map(_load, export.export(predictor, tmp_path))
    texts = ["good\u3000films  \u200b it", "", "the plot\x85was"]
    found = run(text=texts)
    for i, answer in enumerate(predictor([texts[0], texts[2]])):
        row, count = 2 * i, len(answer["words"])
        words = [word.encode() for word in answer["words"]]
        assert found["words"][row, :count].tolist() == words
        tags = [tag.encode() for tag in answer["prediction"]]
        assert found["prediction"][row, :count].tolist() == tags
        np.testing.assert_allclose(
            found["confidences"][row, :count], answer["confidences"], atol=1e-6
        )
    assert not found["prediction"][1].any() and found["words"].shape == (3, 4)
    long = run(text=["films " * 20])  # a row has room for 15
    assert long["prediction"][0, 14] and not long["prediction"][0, 15:].any()
    assert len(long["words"][0]) == 20 and not long["confidences"][0, 15:].any()
    none = run(text=np.array([], object))
    assert {len(value) for value in none.values()} == {0}
    ids = np.int32([[2, 5, 3, 0]])
    feeds = {"input_ids": ids, "input_mask": np.int32(ids > 0)}
    found = run_of_ids(**feeds, segment_ids=feeds["input_mask"])
    (answer,) = predictor(["good"])
    shares = found["probabilities"]
    assert shares.shape == (1, 4, 4) and not shares[0, 3].any()
    expected = pytest.approx(answer["confidences"][0], abs=1e-6)
    assert shares[0, 1].max() == expected
