import pytest

import electra_tf
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

QUESTIONS = ["the film", "it was", "a plot"]
CONTEXTS = ["it was a good film", "the plot is bad " * 8, "very bad"]
ANSWERS = [(9, "good film"), (4, "plot is"), None]


@pytest.fixture(scope="module")
def model(path):
    return electra_tf.ElectraQA.from_checkpoint(path)


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


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (QUESTIONS, None, "questions and contexts"),
        ((QUESTIONS, CONTEXTS[:2]), None, "3 and 2 texts"),
        ((QUESTIONS, CONTEXTS), ANSWERS[:2], "must be one answer.*3.*: 2"),
        (
            (QUESTIONS[:1], CONTEXTS[:1]),
            [(9, "bad film")],
            r"Question 0: .*at its start.*\(9, 'bad film'\)",
        ),
        *(
            ((QUESTIONS[:1], CONTEXTS[:1]), [wrong], r"\(start, text\), as")
            for wrong in (
                *(("film", 3), "film", (3, 5), {"text": ["film"]}),
                *((0, ""), (2, " ")),
            )
        ),
        (
            (QUESTIONS[:1], CONTEXTS[:1]),
            [(15, "film")],
            "Question 0: .*15",
        ),
    ],
)
def test_invalid_questions_and_answers_are_refused(model, x, y, message):
    with pytest.raises(UserError, match=message):
        model.dataset(x, y)


def test_the_loss_is_the_one_of_the_head(model):
    with pytest.raises(UserError, match="`loss` must be left out.*'mse'"):
        model.compile("sgd", "mse")
    for name in ("metrics", "weighted_metrics"):
        with pytest.raises(UserError, match="`metrics` must.*'accuracy'.*`sco"):
            model.compile("sgd", **{name: ["accuracy"]})


def test_rows_must_have_room_for_question_and_stride(path):
    with pytest.raises(UserError, match=r"Received: 10 \+ 10 \+ 3.*length=20"):
        electra_tf.ElectraQA.from_checkpoint(
            path,
            max_seq_length=20,
            qa={"max_query_length": 10, "doc_stride": 10},
        )
