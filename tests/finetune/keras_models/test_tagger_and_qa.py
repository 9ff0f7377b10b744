"""Taggers score words; question answering finds spans."""

import numpy as np
import pytest
import tiny_finetuning as tiny

import electra_tf
from electra_tf.util import seeds

WORDS = "the good film was very bad and it is a plot".split()


def test_every_word_of_a_long_sentence_is_scored_once(path):
    model = electra_tf.ElectraTagger.from_checkpoint(path, 3, max_seq_length=8)
    sentences = [WORDS * 3, WORDS[:2], WORDS[:6]]
    inputs = next(iter(model.dataset(sentences)))
    assert inputs["input_ids"].shape[0] > 5
    assert np.sum(inputs["labels_mask"]) == 33 + 2 + 6
    found = model.predict(sentences, verbose=0)
    assert [x.shape for x in found] == [(33, 3), (2, 3), (6, 3)]
    assert all(np.abs(x).min() > 0 for x in found)
    tags = model.tag(sentences, batch_size=1)
    assert tags == [x.argmax(1).tolist() for x in found]


def test_metrics_are_of_words_alone(path):
    model = electra_tf.ElectraTagger.from_checkpoint(path, labels=("A", "B"))
    x, y = [["the"], ["the", "good", "film"] * 3], [["A"], ["A", "B", "B"] * 3]
    answers = zip(sum(model.tag(x), []), sum(y, []), strict=True)
    right = sum(tag == expected for tag, expected in answers)
    model.compile("sgd", run_eagerly=True)
    scores = model.evaluate(x, y, verbose=0, return_dict=True)
    assert scores["accuracy"] == pytest.approx(right / 10)


def test_a_converted_tagger_answers_as_before(tmp_path):
    """Our taggers read words as segment 1, those of transformers as 0."""
    tiny.write_trained(tmp_path / "ours", "ner", labels=["O", "S-PER"])
    tiny.convert(tmp_path, "ours", "theirs", "hf")
    tiny.convert(tmp_path, "theirs", "again", "electra_tf")
    taggers = [
        electra_tf.ElectraTagger.from_finetuned(str(tmp_path / name))
        for name in ("ours", "theirs", "again")
    ]
    assert [tagger.segment_id for tagger in taggers] == [1, 0, 1]
    expected, *others = (x.predict([WORDS], verbose=0)[0] for x in taggers)
    for found in others:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


QUESTIONS = ["the film", "it was", "a plot"]
CONTEXTS = ["it was a good film", "the plot is bad " * 8, "very bad"]
ANSWERS = [(9, "good film"), (4, "plot is"), None]


@pytest.mark.parametrize("head", ["electra", "hugging_face"])
def test_answers_are_spans_and_scores_those_of_squad(path, head):
    with seeds.seed_initializers(0):  # an article alone scores nothing
        model = electra_tf.ElectraQA.from_checkpoint(
            path, head=head, has_unanswerable=False, max_seq_length=20
        )
    assert model.qa.max_query_length == 5 and model.qa.doc_stride == 6
    x = (QUESTIONS, CONTEXTS)
    assert len(list(model.rows(x))) > 5
    found = model.answer(x)
    assert all(a and a in b for a, b in zip(found, CONTEXTS, strict=True))
    assert model.answer(x, batch_size=1) == found
    right = [(c.index(a), a) for a, c in zip(found, CONTEXTS, strict=True)]
    assert model.score(x, right) == {"exact_match": 100.0, "f1": 100.0}
    right[2] = (5, "bad") if found[2] == "very" else (0, "very")
    f1 = 200 / 3 if found[2] == "very bad" else 0.0  # of the third answer
    assert model.score(x, right) == {
        "exact_match": pytest.approx(200 / 3),
        "f1": pytest.approx((200 + f1) / 3),
    }
