import pytest

import electra_tf
from electra_tf.util import seeds

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
