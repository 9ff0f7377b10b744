"""Answers of exported models against those of `Predictor`."""

import json
import pathlib

import multilingual
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf import ElectraQA
from electra_tf.config.columns import QAConfig
from electra_tf.finetune import export
from electra_tf.finetune.predictor import Predictor
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa import qa_rows
from electra_tf.finetune.qa.qa_files import Context
from electra_tf.finetune.qa.qa_rows import tokens_of_words
from electra_tf.finetune.qa.qa_scorer import span_text
from electra_tf.finetune.qa.served_answers import AnswerFinder, is_max_context
from electra_tf.model.tokenization import Vocabulary

QUESTIONS = [
    ("the plot", "The film was\n\n very  good , it is (the PLOT)."),
    ("what is very bad", "a bad film is the film " * 40),
    ("it", "x"),
    ("was it good", "F\u00eclms \u4e00film\u4e8c, e\u0301 good\u202fplot"),
    ("very " * 30, "it was bad. " * 9),
    ("the film", "the fi\0lm\0 is good"),
    ("a film", "\ufeff \u2003plot\x85s " * 5),
]


def _write(directory, seed=0, **leaves):
    room = {"max_query_length": 8, "doc_stride": 8, **leaves}
    qa_task = tiny.task("squad", **room, metadata={})
    return tiny.write_trained(directory / f"model_{seed}", qa_task, seed)


def _trained(directory, **leaves):
    return Predictor(_write(directory, **leaves))


def _exported(predictor, directory):
    """Returns the signature of a SavedModel."""
    path, _ = export.export(predictor, directory)
    return tf.saved_model.load(path).signatures["serving_default"]


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    directory = tmp_path_factory.mktemp("joint")
    return _trained(directory, qa_na_threshold=0.2, beam_size=4)


def _ask(serve, pairs):
    question, context = (tf.constant(x) for x in zip(*pairs, strict=True))
    found = serve(question=question, context=context)
    return {name: value.numpy() for name, value in found.items()}


def test_served_answers_are_those_of_the_predictor(predictor):
    _check(export.served_model(predictor).answer_texts, predictor)


def test_answers_are_withheld_above_the_threshold_of_dev(tmp_path):
    path = _write(tmp_path)  # without --qa_na_threshold
    odds = [answer["null_odds"] for answer in Predictor(path)(QUESTIONS)]
    threshold = float(np.median(odds))
    (file,) = pathlib.Path(path).rglob("task.json")
    description = json.loads(file.read_text("utf-8"))
    description["tasks"]["squad"]["threshold"] = threshold
    file.write_text(json.dumps(description), "utf-8")
    predictor = Predictor(path)
    for answer, null_odds in zip(predictor(QUESTIONS), odds, strict=True):
        assert bool(answer["prediction"]) == (null_odds <= threshold)
    _check(export.served_model(predictor).answer_texts, predictor)
    assert ElectraQA.from_finetuned(path).qa.qa_na_threshold == threshold


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
    predictor = _trained(tmp_path, **leaves)
    _check(_exported(predictor, tmp_path), predictor)


def _check(serve, predictor):
    """Compares the answers to `QUESTIONS`, and checks their places."""
    expected = predictor(QUESTIONS)
    found = _ask(serve, QUESTIONS)
    for i, (answer, (_, context)) in enumerate(
        zip(expected, QUESTIONS, strict=True)
    ):
        assert found["answer"][i].decode() == answer["prediction"], i
        np.testing.assert_allclose(
            found["null_score"][i], answer["null_odds"], rtol=1e-4, atol=1e-4
        )
        best = answer["nbest"][0]
        score = best["start_logit"] + best["end_logit"]
        np.testing.assert_allclose(found["score"][i], score, atol=1e-4)
        begin, end = found["start_char"][i], found["end_char"][i]
        text = context[begin:end]
        begin, end = found["start_byte"][i], found["end_byte"][i]
        assert context.encode()[begin:end].decode() == text
        words = text.replace("\u202f", " ").replace("\n", " ").split(" ")
        assert " ".join(filter(None, words)) == best["text"]
    nulls = found["null_score"]
    assert nulls.min() < nulls.max()


def test_empty_and_malformed_contexts_and_no_questions_are_answered(predictor):
    serve = export.served_model(predictor).answer_texts
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


@pytest.mark.parametrize(("stride", "length"), [(1, 12), (3, 14), (8, 32)])
def test_windows_in_the_graph_are_those_of_qa_rows(stride, length):
    config = QAConfig(max_query_length=4, doc_stride=stride)
    search = AnswerFinder(None, config, length, outputs=None)
    num_questions, totals = [0, 2, 4, 3, 0], [0, 5, 40, 29, 8]
    windows = search.windows(
        *(
            tf.RaggedTensor.from_row_lengths(tf.zeros(sum(x), tf.int32), x)
            for x in (num_questions, totals)
        )
    )
    columns = tf.tile(tf.range(length)[tf.newaxis], [len(windows.starts), 1])
    is_best = is_max_context(windows, columns).numpy()
    starts, sizes = windows.starts.numpy(), windows.sizes.numpy()
    row = 0
    for i, total in enumerate(totals):
        room = length - num_questions[i] - 3
        expected = qa_rows.get_windows(total, room, stride)
        best = qa_rows.max_context(expected, total)
        for number, window in enumerate(expected):
            assert windows.questions[row] == i
            first, end = window
            assert (starts[row], starts[row] + sizes[row]) == window
            np.testing.assert_array_equal(
                is_best[row, : end - first], best[first:end] == number
            )
            row += 1
    assert row == len(starts)


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


class _Finder(AnswerFinder):
    """Finds the characters of given spans."""

    spans = ()

    def _best_spans(self, questions, contexts):
        first, last = (tf.constant(x, tf.int32) for x in self.spans)
        return [tf.zeros_like(first, tf.float32), first, last, None]


def _find(tokenizer, contexts, first, last):
    finder = _Finder(tokenizer, QAConfig(), 64, outputs=None)
    finder.spans = first, last
    found = finder(tf.fill([len(contexts)], "?"), tf.constant(contexts))
    found.pop("null_score")
    return {name: x.numpy() for name, x in found.items()}


def _assert_read_as_in_python(tokenizer):
    spans = [
        (text[:60], *span)
        for text in CONTEXTS
        for span in _spans(tokenizer, text[:60])
    ]
    contexts, first, last, expected = zip(*spans, strict=True)
    found = _find(tokenizer, contexts, first, last)["answer"]
    for context, text, other in zip(contexts, found, expected, strict=True):
        assert text.decode() == other, context


CONTEXTS = (
    *multilingual.SENTENCES,
    *(x for x in multilingual.AWKWARD if x.strip() and "\0" not in x),
    "\u4eca\u65e5\u306f\u2026\u65e5 \u304b\u3099\u65e5 \ufb01lm\u3231 bad",
)


def test_offsets_are_those_of_the_span_not_of_its_first_occurrence():
    tokenizer = TextTokenizer(tiny.VOCABULARY)
    found = _find(tokenizer, ["a bad-good-bad"], [5], [5])
    assert (found["start_char"], found["end_char"]) == (11, 14)


def test_spans_of_word_pieces_are_read_as_in_python():
    letters = sorted({*" ".join(multilingual.SENTENCES).lower()} - {" "})
    pieces = [x for letter in letters for x in (letter, f"##{letter}")]
    tokens = dict.fromkeys([*tiny.VOCABULARY.tokens, *pieces[::3]])
    _assert_read_as_in_python(TextTokenizer(Vocabulary(tuple(tokens))))


@pytest.mark.slow
def test_spans_of_sentence_pieces_are_read_as_in_python(tmp_path):
    vocabulary = multilingual.learn_vocabulary(tmp_path)
    _assert_read_as_in_python(TextTokenizer(vocabulary))
