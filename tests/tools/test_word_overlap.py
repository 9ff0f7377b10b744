"""The rule of words in common finds the best threshold of their share."""

import json

import numpy as np
import pytest
import tiny_finetuning as tiny
import word_overlap

from electra_tf.finetune.examples import InputExample
from electra_tf.util.errors import UserError


def _pairs(*rows):
    return [InputExample(i, *row) for i, row in enumerate(rows)]


TRAIN = _pairs(
    ("the cat", "the cat sat", "yes"),
    ("the dog", "the dog ran", "yes"),
    ("the cow", "the pig ate", "no"),
    ("the fox", "the hen ate", "no"),
)


@pytest.mark.parametrize("label", ["yes", "no"])
def test_either_label_may_be_that_of_many_common_words(label):
    dev = _pairs(("the owl", "The owl flew", "yes"), ("the emu", "the", "no"))
    found = word_overlap.measure(TRAIN, dev, label, [])
    assert found["accuracy"] == 1
    assert (found["num_train_rows"], found["num_rows"]) == (4, 2)


def test_words_weigh_by_their_rarity():
    """`the` is in all four texts and weighs nothing, `ate` in two."""
    pairs = _pairs(("The the ate ate owl", "Ate the", None), ("", "the", None))
    texts = ["the pig Ate", "the hen ate. The hen ate", "The cat", "the dog"]
    shares = word_overlap._shares(pairs, word_overlap._rarity(texts))
    ate, owl = 2 * np.log(4 / 2), np.log(4)
    np.testing.assert_allclose(shares, [ate / (ate + owl), 0])


def test_rarity_is_that_in_the_second_texts():
    """In the first ones `cat` would weigh nothing, and 0 divide the labels."""
    train = _pairs(("cat dog", "dog", "yes"), ("cat owl", "cat", "no"))
    assert word_overlap.measure(train, train, "yes", [])["threshold"] == 0.5


@pytest.mark.parametrize("seed", range(5))
def test_no_threshold_is_right_more_often(seed):
    rng = np.random.default_rng(seed)
    shares = rng.integers(0, 6, 40) / 5
    is_label = rng.random(40) < (0.9 - 0.8 * shares if seed % 2 else shares)
    threshold, is_above = word_overlap._best_threshold(shares, is_label)
    right = np.mean(((shares > threshold) == is_above) == is_label)
    every = [
        np.mean(((shares > t) == way) == is_label)
        for t in (-1, *np.unique(shares))
        for way in (True, False)
    ]
    assert right == max(every)


def test_answers_are_compared_where_the_rule_is_right_and_where_it_is_wrong():
    dev = _pairs(
        ("the cat", "the cat", "yes"),
        ("the dog", "the dog", "no"),
        ("the cow", "the hen", "no"),
        ("the pig", "the fox", "no"),
    )
    answers = [["yes", "no", "yes", "no"], ["yes", "yes", "no", "no"]]
    found = word_overlap.measure(TRAIN, dev, "yes", answers)
    assert found["accuracy"] == 0.75
    assert found["trials"] == [
        {
            "accuracy": 0.75,
            "as_the_rule": 0.5,
            "accuracy_where_right": pytest.approx(2 / 3),
            "accuracy_where_wrong": 1.0,
        },
        {
            "accuracy": 0.75,
            "as_the_rule": 1.0,
            "accuracy_where_right": 1.0,
            "accuracy_where_wrong": 0.0,
        },
    ]
    found = word_overlap.measure(TRAIN, dev[:1], "yes", [["yes"]])
    assert found["trials"][0]["accuracy_where_wrong"] is None


def test_the_answers_of_a_run_are_read(tmp_path, capsys):
    tiny.write_model(tmp_path)
    rows = [
        {"question": pair.text_a, "answer": pair.text_b, "label": pair.label}
        for pair in TRAIN
    ]
    tiny.write(tmp_path, "pairs", "train.jsonl", rows)
    tiny.write(tmp_path, "pairs", "dev.jsonl", rows[:3])
    path = tmp_path / "models/tiny/dev_predictions"
    path.mkdir()

    def answer(trial, prediction, first_id=0):
        text = "".join(
            json.dumps({"eid": i, "label": x.label, "prediction": prediction})
            + "\n"
            for i, x in enumerate(TRAIN[:3], first_id)
        )
        (path / f"pairs_dev_{trial}_predictions.jsonl").write_text(text)

    answer(1, "yes")
    answer(2, "no")
    columns = {
        "task_names": ("pairs",),
        "task_kind": "classification",
        "text_column": "question",
        "label_column": "label",
    }
    columns |= {"text_b_column": "answer", "num_trials": 2}
    config = tiny.config(tmp_path, **columns, max_train_examples=3)
    word_overlap.main(config)
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["num_train_rows"], found["accuracy"]) == (3, 1)
    assert [trial["accuracy"] for trial in found["trials"]] == [2 / 3, 1 / 3]
    answer(2, "no", first_id=1)
    with pytest.raises(UserError, match="trial 2 must be of the 3 dev rows"):
        word_overlap.main(config)
    tiny.write(tmp_path, "pairs", "dev.jsonl", rows[1:])
    with pytest.raises(UserError, match="trial 1 must be of the 3 dev rows"):
        word_overlap.main(config)
    for wrong in (
        {"text_b_column": ""},
        {"text_column": "label", "label_column": "question"},  # four labels
    ):
        config = tiny.config(tmp_path, **columns | wrong)
        with pytest.raises(UserError, match="pairs of texts and two labels"):
            word_overlap.main(config)
