"""Answers and figures against the original's."""

import json

import golden_qa
import numpy as np
import pytest
import tiny_finetuning as tiny
from golden_qa import GOLDEN, NAMES, SETUPS, TOKENIZER, examples, outputs

from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa import qa_metrics
from electra_tf.finetune.qa.qa_rows import tokens_of_words
from electra_tf.finetune.qa.qa_scorer import QAScorer, span_text
from electra_tf.model.tokenization import Vocabulary

BEAM, SEPARATE, _, BEAM_V1 = SETUPS[:4]
LENGTHS = {"max_query_length": 6, "doc_stride": 8}


@pytest.mark.parametrize("pair", GOLDEN["pairs"])
def test_two_texts_score_as_in_the_original(pair):
    texts = pair["gold"], pair["pred"]
    normal = [qa_metrics.normalize_answer(text) for text in texts]
    assert normal == [pair["norm_gold"], pair["norm_pred"]]
    assert qa_metrics.exact_score(*texts) == pair["exact"]
    assert qa_metrics.f1_score(*texts) == pair["f1_v1"] == pair["f1_mrqa"]
    assert qa_metrics.f1_score(*texts, if_empty=1.0) == pair["f1"]


def _scorer(setup):
    config = golden_qa.config(setup)
    is_v1 = setup["null_odds"] is None
    threshold = None if is_v1 else config.threshold("electra")
    return QAScorer(config, TOKENIZER, threshold)


@pytest.mark.parametrize("setup", SETUPS, ids=NAMES)
def test_answers_and_scores_are_those_of_the_original(setup):
    scorer, rows = _scorer(setup), outputs(setup)
    questions = examples(setup)
    answers = scorer.answers(rows, questions)
    texts = [x["nbest"][0]["text"] if x["nbest"] else "" for x in answers]
    # Differs: the original writes "empty" where no span is allowed.
    assert texts == [text.replace("empty", "") for text in setup["preds"]]
    odds, expected = [answer["null_odds"] for answer in answers], texts
    if setup["null_odds"] is None:
        assert odds == [None] * len(odds)
    else:
        np.testing.assert_allclose(odds, setup["null_odds"], rtol=1e-6)
        is_answered = np.array(odds) <= setup["threshold"]
        expected = np.where(is_answered, texts, "").tolist()
    assert [answer["prediction"] for answer in answers] == expected
    figures = setup["results"].items()
    figures = {k: v for k, v in figures if not k.endswith("total")}
    assert scorer.score(rows, questions) == {**figures, "loss": 0.25}


@pytest.mark.parametrize("setup", [BEAM, BEAM_V1], ids=["squad", "squadv1"])
def test_the_best_answers_score_as_in_the_original(setup):
    answers = _scorer(setup).answers(outputs(setup), examples(setup))
    for answer, scores, probabilities in zip(
        answers, setup["nbest_scores"], setup["probs"], strict=True
    ):
        if not answer["nbest"]:
            assert scores == [0]  # its "empty"
            continue
        found = [x["start_logit"] + x["end_logit"] for x in answer["nbest"]]
        np.testing.assert_allclose(found, scores, rtol=1e-6, atol=2e-6)
        found = [x["probability"] for x in answer["nbest"]]
        np.testing.assert_allclose(
            found[:2], probabilities, rtol=1e-6, atol=1e-7
        )
        assert sum(found) == pytest.approx(1)


def test_a_beam_without_a_classifier_has_the_score_of_the_span_at_cls():
    setup, rows = BEAM, outputs(BEAM)
    rows["null_log_prob"] = -rows.pop("answerable_logit")
    answer = _scorer(setup).answers(rows, examples(setup))[1]
    null = rows["null_log_prob"][rows["eid"] == 1].min()
    best = answer["nbest"][0]["start_logit"] + answer["nbest"][0]["end_logit"]
    assert answer["null_odds"] == pytest.approx(null - best)


@pytest.mark.parametrize("setup", [BEAM, SEPARATE], ids=["beam", "separate"])
def test_only_a_model_that_answers_all_alike_is_constant(setup):
    scorer, rows = _scorer(setup), outputs(setup)
    assert not scorer.is_constant(rows)
    alike = {**rows, "answerable_logit": np.zeros(len(rows["eid"]))}
    first = np.argmax(rows["word_numbers"] > 0, 1)
    for name in rows:
        if name.endswith("_index"):
            shape = [-1] + [1] * (rows[name].ndim - 1)
            alike[name] = np.zeros_like(rows[name]) + first.reshape(shape)
        elif name.endswith("_logits"):
            alike[name] = np.zeros_like(rows[name])
    alike["is_max_context"] = np.ones_like(rows["is_max_context"])
    assert scorer.is_constant(alike)


def test_files_hold_what_evaluators_read():
    setup = BEAM
    answers = _scorer(setup).answers(outputs(setup), examples(setup))
    task = tiny.task("squad", **LENGTHS, qa_na_threshold=setup["threshold"])
    texts = task.output_files("dev", answers)
    files = {name: json.loads(text) for name, text in texts.items()}
    best = [x["nbest"][0]["text"] if x["nbest"] else "" for x in answers]
    assert [*files["squad_preds.json"].values()] == best
    odds = [answer["null_odds"] for answer in answers]
    assert [*files["squad_null_odds.json"].values()] == odds
    assert files["squad_eval.json"] == setup["results"]
    shown = [answer["prediction"] for answer in answers]
    assert [*files["squad.json"].values()] == shown
    assert files["squad_nbest.json"]["id01"] == answers[1]["nbest"]


SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def _text(tokenizer, words, ids, places):
    known = tokens_of_words(words, tokenizer.in_graph)
    return span_text(words, ids, places, known, tokenizer.vocabulary.unk_id)


@pytest.mark.parametrize(
    "case", [x for x in GOLDEN["final_texts"] if x["pred_text"] != "not there"]
)
def test_texts_are_those_of_the_original(case):
    text, part = case["orig_text"], case["pred_text"].replace(" ", "")
    letters = sorted({*(text.lower() + part)})
    pieces = (*SPECIAL, *letters, *(f"##{x}" for x in letters))
    tokenizer = TextTokenizer(Vocabulary(pieces))
    words = text.split(" ")
    rows = tokenizer.tokenize(words)
    ids = np.concatenate(rows)
    first = "".join(pieces[i].removeprefix("##") for i in ids).find(part)
    last = first + len(part) - 1
    numbers = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    places = np.concatenate([np.arange(len(row)) for row in rows])
    found = _text(
        tokenizer,
        words[numbers[first] : numbers[last] + 1],
        ids[first : last + 1],
        (places[first], places[last]),
    )
    # Differs: the original answers with all words of a text that holds Chinese.
    assert found == case["out"].replace("\u4e2dsmith\u200b!", "smith")


def test_an_unknown_token_stands_for_its_whole_word():
    tokenizer = TextTokenizer(Vocabulary((*SPECIAL, "(", ")", "la", "##te")))
    for word, ids, places, expected in (
        ("(Late)", (5, 7, 8), (0, 2), "(Late"),
        ("(Late)", (7, 8), (1, 2), "Late"),
        ("(Later)", (1,), (1, 1), "(Later)"),
    ):
        assert _text(tokenizer, (word,), ids, places) == expected
