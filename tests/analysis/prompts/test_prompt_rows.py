"""Rows of prompts: where the label word stands, and what is cut."""

import multilingual
import pytest
import tensorflow as tf
import tiny_networks

from electra_tf.analysis.prompts import prompt_rows
from electra_tf.analysis.prompts import templates as prompt_templates
from electra_tf.analysis.prompts.templates import Prompts
from electra_tf.model.text_reader import TextReader
from electra_tf.util.errors import UserError

READER = TextReader(tiny_networks.VOCABULARY, max_seq_length=10)


def prompts(*texts, words=("good", "badly")):
    made = (prompt_templates._parse_template(text) for text in texts)
    labels = {str(i): word for i, word in enumerate(words)}
    return Prompts(tuple(made), labels, "label")


def rows(given, *examples):
    made = prompt_rows.make(READER, given, examples)
    tokens = tiny_networks.VOCABULARY.tokens
    return [(" ".join(tokens[i] for i in x.ids), x.positions) for x in made]


def test_rows_go_by_example_then_template_then_label():
    given = prompts("{a} is {label}.", "the {label} {a}")
    assert rows(given, {"a": "it"}, {"a": "Films"}) == [
        ("[CLS] it is good . [SEP]", (3,)),
        ("[CLS] it is bad ##ly . [SEP]", (3, 4)),
        ("[CLS] the good it [SEP]", (2,)),
        ("[CLS] the bad ##ly it [SEP]", (2, 3)),
        ("[CLS] film ##s is good . [SEP]", (4,)),
        ("[CLS] film ##s is bad ##ly . [SEP]", (4, 5)),
        ("[CLS] the good film ##s [SEP]", (2,)),
        ("[CLS] the bad ##ly film ##s [SEP]", (2, 3)),
    ]


def test_the_longest_text_is_cut_alike_for_all_labels():
    example = {"a": "very very very very very very", "b": "it was"}
    assert rows(prompts("{a} . {b} {label}"), example) == [
        # One of the eight places is kept for the longer label word.
        ("[CLS] very very very . it was good [SEP]", (7,)),
        ("[CLS] very very very . it was bad ##ly [SEP]", (7, 8)),
    ]


def test_an_empty_text_leaves_the_template():
    assert rows(prompts("{a} is {label}"), {"a": ""})[0] == (
        "[CLS] is good [SEP]",
        (2,),
    )


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return multilingual.learn_vocabulary(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(
    "template",
    [
        "{text}図書館へ{label}です。",
        "{label}、{text}",
        "The {text} is {label}, {text}.",
        "{text} {label}!",
    ],
)
@pytest.mark.parametrize("text", ["", "今日は天気がいい", " a quick dog "])
def test_pieces_are_those_of_the_filled_text(vocabulary, template, text):
    reader = TextReader(vocabulary, max_seq_length=99, reads_masks=True)
    given = prompts(template, words=("校", "over", "été[MASK]"))
    found = prompt_rows.make(reader, given, [{"text": text}])
    for row, word in zip(found, given.label_words.values(), strict=True):
        filled = template.format(text=text, label=word)
        ids = reader.tokenize(tf.constant([filled])).to_list()[0]
        assert list(row.ids) == [2, *ids, 3]
        pieces = [vocabulary.tokens[row.ids[i]] for i in row.positions]
        surface = "".join(pieces).replace("▁", " ").strip()
        assert surface == word.replace("é", "e")


def test_a_template_must_leave_room():
    with pytest.raises(UserError, match="leave room for a text in 10 tokens"):
        rows(prompts("{a} the the the the the the {label}"), {"a": "it"})


def test_a_label_word_must_have_a_token():
    with pytest.raises(UserError, match="of label 1, which the tokenizer"):
        rows(prompts("{a} {label}", words=("good", "\u200b")), {"a": "it"})
