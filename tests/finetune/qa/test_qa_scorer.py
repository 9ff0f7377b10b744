"""Answers and figures against the original's."""

import dataclasses
import json

import golden_arrays
import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.config.columns import QAConfig
from electra_tf.finetune import scorer as metrics
from electra_tf.finetune.preprocessing import QAExample, TextTokenizer
from electra_tf.finetune.qa.qa_heads import BEAM
from electra_tf.finetune.qa.qa_rows import tokens_of_words
from electra_tf.finetune.qa.qa_tasks import QAScorer, span_text
from electra_tf.model.tokenization import Vocabulary

DIRECTORY = golden_arrays.HERE / "golden/finetune"
GOLDEN = json.loads((DIRECTORY / "qa_answers.json").read_text("utf-8"))
SETUPS = GOLDEN["setups"]
NAMES = [
    f"{x['set']}-{'joint' if x['joint'] else 'separate'}-{x['classifier']}"
    for x in SETUPS
]
TOKENIZER = TextTokenizer(Vocabulary(tuple(GOLDEN["tokens"])))


@pytest.mark.parametrize("pair", GOLDEN["pairs"])
def test_two_texts_score_as_in_the_original(pair):
    texts = pair["gold"], pair["pred"]
    normal = [metrics.normalize_answer(text) for text in texts]
    assert normal == [pair["norm_gold"], pair["norm_pred"]]
    assert metrics.exact_score(*texts) == pair["exact"]
    assert metrics.f1_score(*texts) == pair["f1_v1"] == pair["f1_mrqa"]
    assert metrics.f1_score(*texts, if_empty=1.0) == pair["f1"]


def _numbers_in_word(rows, questions):
    """Returns the column that the original lacks."""
    numbers = np.zeros_like(rows["word_numbers"])
    eids = [question.eid for question in questions]
    for row, words in enumerate(rows["word_numbers"]):
        question = questions[eids.index(rows["eid"][row])]
        sizes = [len(x) for x in TOKENIZER.tokenize(question.words)]
        shown = np.unique(words[words > 0])
        for word in shown:
            (places,) = np.nonzero(words == word)
            skipped = sizes[word - 1] - len(places)  # shown by other windows
            is_cut_before = word == shown[0] and len(shown) > 1
            numbers[row, places] = np.arange(len(places)) + (
                skipped if is_cut_before else 0
            )
    return numbers


def _run(setup):
    """Returns the scorer of a set-up, outputs of its head, and questions."""
    threshold = setup["threshold"]
    config = QAConfig(
        qa_na_threshold=threshold, n_best_size=8, max_answer_length=12
    )
    is_v1 = setup["null_odds"] is None
    scorer = QAScorer(config, TOKENIZER, None if is_v1 else threshold)
    questions = []
    for eid, (qas_id, number, texts) in enumerate(GOLDEN["sets"][setup["set"]]):
        words = tuple(GOLDEN["contexts"][number])
        question = QAExample(eid, qas_id, "?", " ".join(words), words)
        questions.append(
            dataclasses.replace(
                question, answers=tuple(texts), is_impossible=not texts
            )
        )
    prefix = "squadv1/" * (setup["set"] == "squadv1")
    names = BEAM if setup["joint"] else ("start_logits", "end_logits")
    names += ("answerable_logit",) * setup["classifier"]
    rows = ("eid", "input_ids", "word_numbers", "is_max_context")
    with np.load(DIRECTORY / "qa_rows.npz") as arrays:
        outputs = {name: arrays[prefix + name] for name in names}
        outputs |= {name: arrays[f"{setup['set']}/{name}"] for name in rows}
    outputs["numbers_in_word"] = _numbers_in_word(outputs, questions)
    outputs["loss"] = np.full(len(outputs["eid"]), 0.25, np.float32)
    return scorer, outputs, questions


@pytest.mark.parametrize("setup", SETUPS, ids=NAMES)
def test_answers_and_scores_are_those_of_the_original(setup):
    scorer, outputs, questions = _run(setup)
    answers = scorer.answers(outputs, questions)
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
    assert scorer.score(outputs, questions) == {**figures, "loss": 0.25}
    if not setup["joint"]:
        return
    for answer, scores, probabilities in zip(
        answers, setup["nbest_scores"], setup["probs"], strict=True
    ):
        best = answer["nbest"]
        if not best:
            assert scores == [0]  # its "empty"
            continue
        found = [x["start_logit"] + x["end_logit"] for x in best]
        np.testing.assert_allclose(found, scores, rtol=1e-6, atol=2e-6)
        found = [x["probability"] for x in best]
        assert found[:2] == pytest.approx(probabilities, rel=1e-6, abs=1e-7)
        assert sum(found) == pytest.approx(1)


def test_a_beam_without_a_classifier_has_the_score_of_the_span_at_cls():
    scorer, outputs, questions = _run(SETUPS[0])
    outputs["null_log_prob"] = -outputs.pop("answerable_logit")
    answer = scorer.answers(outputs, questions)[1]
    null = outputs["null_log_prob"][outputs["eid"] == 1].min()
    best = answer["nbest"][0]["start_logit"] + answer["nbest"][0]["end_logit"]
    assert answer["null_odds"] == pytest.approx(null - best)


@pytest.mark.parametrize("setup", SETUPS[:2], ids=["beam", "separate"])
def test_only_a_model_that_answers_all_alike_is_constant(setup):
    scorer, outputs, _ = _run(setup)
    assert not scorer.is_constant(outputs)
    alike = {**outputs, "answerable_logit": np.zeros(len(outputs["eid"]))}
    first = np.argmax(outputs["word_numbers"] > 0, 1)
    for name, output in outputs.items():
        if name.endswith("_index"):
            shape = [-1] + [1] * (output.ndim - 1)
            alike[name] = np.zeros_like(output) + first.reshape(shape)
        elif name.endswith("_logits"):
            alike[name] = np.zeros_like(output)
    alike["is_max_context"] = np.ones_like(outputs["is_max_context"])
    assert scorer.is_constant(alike)


def test_files_hold_what_evaluators_read():
    setup = SETUPS[0]
    scorer, *pair = _run(setup)
    answers = scorer.answers(*pair)
    threshold = setup["threshold"]
    lengths = {"max_query_length": 6, "doc_stride": 8}
    task = tiny.task("squad", **lengths, qa_na_threshold=threshold)
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
