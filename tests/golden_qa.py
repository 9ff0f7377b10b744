"""Outputs of question answering heads, and the original's answers."""

import json

import golden_arrays
import numpy as np

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.preprocessing import QAExample, TextTokenizer
from electra_tf.model.tokenization import Vocabulary

_DIRECTORY = golden_arrays.HERE / "golden/finetune"
GOLDEN = json.loads((_DIRECTORY / "qa_answers.json").read_text("utf-8"))
SETUPS = GOLDEN["setups"]
NAMES = [
    f"{x['set']}-{'joint' if x['joint'] else 'separate'}-{x['classifier']}"
    for x in SETUPS
]
TOKENIZER = TextTokenizer(Vocabulary(tuple(GOLDEN["tokens"])))
_BEAM = (
    "start_top_index",
    "start_top_log_probs",
    "end_top_index",
    "end_top_log_probs",
)


def config(setup, **leaves):
    """Returns the configuration of a set-up."""
    values = {"n_best_size": 8, "max_answer_length": 12, **leaves}
    return QAConfig(qa_na_threshold=setup["threshold"], **values)


def examples(setup):
    """Returns the questions of a set-up."""
    found = []
    for eid, (qas_id, number, texts) in enumerate(GOLDEN["sets"][setup["set"]]):
        words = tuple(GOLDEN["contexts"][number])
        context = " ".join(words)
        found.append(
            QAExample(
                eid,
                qas_id,
                "?",
                context,
                words,
                tuple(texts),
                is_impossible=not texts,
            )
        )
    return found


def outputs(setup):
    """Returns the outputs of a set-up's head, with the fields of its rows."""
    prefix = "squadv1/" * (setup["set"] == "squadv1")
    names = _BEAM if setup["joint"] else ("start_logits", "end_logits")
    names += ("answerable_logit",) * setup["classifier"]
    rows = ("eid", "input_ids", "word_numbers", "is_max_context")
    with np.load(_DIRECTORY / "qa_rows.npz") as arrays:
        found = {name: arrays[prefix + name] for name in names}
        found |= {name: arrays[f"{setup['set']}/{name}"] for name in rows}
    found["numbers_in_word"] = _numbers_in_word(found, examples(setup))
    found["loss"] = np.full(len(found["eid"]), 0.25, np.float32)
    return found


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
