"""Answers of exported models against those of `Predictor`."""

import json
import pathlib
import types

import multilingual
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf import ElectraQA
from electra_tf.finetune import export
from electra_tf.finetune.finetuned import Predictor
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa.qa_files import Context
from electra_tf.finetune.qa.qa_rows import tokens_of_words
from electra_tf.finetune.qa.qa_tasks import span_text
from electra_tf.model.tokenization import Vocabulary

LENGTHS = {"max_query_length": 8, "doc_stride": 8}
QUESTIONS = [
    ("the plot", "The film was\n\n very  good , it is (the PLOT)."),
    ("what is very bad", "a bad film is the film " * 40),
    ("it", "x"),
    ("was it good", "F\u00eclms \u4e00film\u4e8c, e\u0301 good\u202fplot"),
    ("very " * 30, "it was bad. " * 9),
    ("the film", "the fi\0lm\0 is good"),
    ("a film", "\ufeff \u2003plot\x85s " * 5),
]


def _write(directory, **leaves):
    qa_task = tiny.task("squad", **LENGTHS, **leaves, metadata={})
    return tiny.write_trained(directory / "model", qa_task)


def _ask(serve, pairs):
    question, context = (tf.constant(x) for x in zip(*pairs, strict=True))
    found = serve(question=question, context=context)
    return {name: value.numpy() for name, value in found.items()}


def _check(serve, predictor):
    """Compares the answers to `QUESTIONS`, and checks their places."""
    served = _ask(serve, QUESTIONS)
    for i, answer in enumerate(predictor(QUESTIONS)):
        context, found = QUESTIONS[i][1], {k: v[i] for k, v in served.items()}
        assert found["answer"].decode() == answer["prediction"], i
        np.testing.assert_allclose(
            found["null_score"], answer["null_odds"], rtol=1e-4, atol=1e-4
        )
        assert answer["question"] == QUESTIONS[i][0]
        shares = [other["probability"] for other in answer["nbest"]]
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        best = answer["nbest"][0]
        score = best["start_logit"] + best["end_logit"]
        np.testing.assert_allclose(found["score"], score, atol=1e-4)
        text = context[found["start_char"] : found["end_char"]]
        part = context.encode()[found["start_byte"] : found["end_byte"]]
        assert part.decode() == text
        assert " ".join(Context(text).words) == best["text"]
    assert np.ptp(served["null_score"]) > 0


def test_answers_are_those_of_the_predictor_and_of_its_threshold(tmp_path):
    path = _write(tmp_path, beam_size=4)  # without --qa_na_threshold
    odds = [answer["null_odds"] for answer in Predictor(path)(QUESTIONS)]
    threshold = float(np.median(odds))
    (file,) = pathlib.Path(path).rglob("task.json")
    description = json.loads(file.read_text("utf-8"))
    description["tasks"]["squad"]["threshold"] = threshold
    file.write_text(json.dumps(description), "utf-8")
    predictor = Predictor(path)
    for answer, null_odds in zip(predictor(QUESTIONS), odds, strict=True):
        assert bool(answer["prediction"]) == (null_odds <= threshold)
    assert ElectraQA.from_finetuned(path).qa.qa_na_threshold == threshold
    serve = export.served_model(predictor).answer_texts
    _check(serve, predictor)
    hostile = [
        ("", ""),
        (b"\xff", b"\xff\xfe \xc3"),
        ("it", "\u200b \x00"),
        ("it " * 500, "good " * 400 + "x" * 5000),
    ]
    found = _ask(serve, hostile)
    assert (found["answer"][:3] == b"").all()
    assert (found["score"][:3] == -1e9).all() and found["score"][3] > -1e9
    for name in ("start_byte", "end_byte", "start_char", "end_char"):
        assert not found[name][:3].any()
    none = tf.zeros([0], tf.string)
    found = serve(question=none, context=none)
    assert {value.shape[0] for value in found.values()} == {0}


@pytest.mark.slow
@pytest.mark.parametrize(
    "leaves",
    [
        {"qa_na_threshold": 0.2},
        {"answerable_classifier": False, "qa_na_threshold": 0.0},
        {"joint_prediction": False},
        {"head": "hugging_face", "qa_na_threshold": -50.0},
    ],
)
def test_saved_models_answer_as_the_predictors(leaves, tmp_path):
    predictor = Predictor(_write(tmp_path, **leaves))
    path, _ = export.export(predictor, tmp_path)
    model = tf.saved_model.load(path)
    _check(model.signatures["serving_default"], predictor)


class _Served(export.QuestionAnswerer):
    """Finds the characters of given spans."""

    def _best_spans(self, questions, contexts):
        first, last = (tf.constant(x, tf.int32) for x in self.spans)
        return [tf.zeros_like(first, tf.float32), first, last, None]


def _find(tokenizer, contexts, first, last):
    task = tiny.task("squadv1", vocabulary=tokenizer.vocabulary, **LENGTHS)
    served = _Served(task, types.SimpleNamespace(heads={"squadv1": None}))
    served.spans = first, last
    questions = tf.fill([len(contexts)], "?")
    found = served.answer_texts(questions, tf.constant(contexts))
    return {name: x.numpy() for name, x in found.items()}


def test_offsets_are_those_of_the_span_not_of_its_first_occurrence():
    tokenizer = TextTokenizer(tiny.VOCABULARY)
    found = _find(tokenizer, ["a bad-good-bad"], [5], [5])
    assert (found["start_char"], found["end_char"]) == (11, 14)


def _spans(tokenizer, context):
    """Yields first and last token of short spans, and their text in Python."""
    words = Context(context).words
    known = tokens_of_words(words, tokenizer.in_graph)
    ids = tokenizer.tokenize(words)
    numbers = np.repeat(np.arange(len(ids)), [len(x) for x in ids])
    places = np.concatenate([np.arange(len(x)) for x in ids])
    ids, unknown = np.concatenate(ids), tokenizer.vocabulary.unk_id
    for i in range(len(ids)):
        for j in range(i, min(i + 5, len(ids))):
            span = words[numbers[i] : numbers[j] + 1]
            ends = (places[i], places[j])
            yield i, j, span_text(span, ids[i : j + 1], ends, known, unknown)


@pytest.mark.parametrize(
    "kind", ["words", pytest.param("sentences", marks=pytest.mark.slow)]
)
def test_spans_of_pieces_are_read_as_in_python(kind, tmp_path):
    if kind == "sentences":
        vocabulary = multilingual.learn_vocabulary(tmp_path)
    else:
        letters = sorted({*" ".join(multilingual.SENTENCES).lower()} - {" "})
        pieces = [x for letter in letters for x in (letter, f"##{letter}")]
        tokens = dict.fromkeys([*tiny.VOCABULARY.tokens, *pieces[::3]])
        vocabulary = Vocabulary(tuple(tokens))
    tokenizer = TextTokenizer(vocabulary)
    awkward = [x for x in multilingual.AWKWARD if x.strip() and "\0" not in x]
    mixed = (
        "\u4eca\u65e5\u306f\u2026\u65e5 \u304b\u3099\u65e5 \ufb01lm\u3231 bad"
    )
    spans = [
        (text[:60], *span)
        for text in (*multilingual.SENTENCES, *awkward, mixed)
        for span in _spans(tokenizer, text[:60])
    ]
    contexts, first, last, expected = zip(*spans, strict=True)
    found = _find(tokenizer, contexts, first, last)["answer"]
    for context, text, other in zip(contexts, found, expected, strict=True):
        assert text.decode() == other, context
