import multilingual
import numpy as np
import pytest
from golden_qa import GOLDEN

from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa.qa_scorer import span_text
from electra_tf.finetune.qa.token_borders import tokens_of_words
from electra_tf.model.tokenization import Vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def _text(tokenizer, words, ids, places):
    known = tokens_of_words(words, tokenizer.in_graph)
    return span_text(words, ids, places, known, tokenizer.vocabulary.unk_id)


def _characters(*texts):
    """Returns a tokenizer that has all characters of texts as word pieces."""
    letters = sorted({*"".join(texts)})
    return TextTokenizer(
        Vocabulary((*SPECIAL, *letters, *(f"##{x}" for x in letters)))
    )


@pytest.mark.parametrize(
    "case", [x for x in GOLDEN["final_texts"] if x["pred_text"] != "not there"]
)
def test_texts_are_those_of_the_original(case):
    text, part = case["orig_text"], case["pred_text"].replace(" ", "")
    tokenizer = _characters(text.lower(), part)
    words = text.split(" ")
    rows = tokenizer.tokenize(words)
    ids = np.concatenate(rows)
    places = np.concatenate([np.arange(len(row)) for row in rows])
    tokens = [tokenizer.vocabulary.tokens[i].removeprefix("##") for i in ids]
    first = "".join(tokens).find(part)
    last = first + len(part) - 1
    numbers = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    found = _text(
        tokenizer,
        words[numbers[first] : numbers[last] + 1],
        ids[first : last + 1],
        (places[first], places[last]),
    )
    # Differs: the original answers with all words of a text that holds Chinese.
    assert found == case["out"].replace("\u4e2dsmith\u200b!", "smith")


def test_sentencepiece_spans_are_read_from_the_original_text(tmp_path):
    tokenizer = TextTokenizer(
        multilingual.learn_vocabulary(
            tmp_path, do_lower_case=True, strip_accents=True
        )
    )
    words = ("(It", "was", "Caf\u00e9s,", "no", "\ufb01lm")
    ids = tokenizer.tokenize(words)
    tokens = tokenizer.vocabulary.tokens
    pieces = [[tokens[i] for i in row] for row in ids]
    assert pieces[2][-1] == ","
    last = len(ids[2]) - 2
    assert _text(tokenizer, words[2:3], ids[2][:-1], (0, last)) == "Caf\u00e9s"
    span = [*ids[1], *ids[2][:-1]]
    assert _text(tokenizer, words[1:3], span, (0, last)) == "was Caf\u00e9s"
    assert pieces[4][-2:] == ["l", "m"]
    last = len(ids[4]) - 2
    assert _text(tokenizer, words[4:], ids[4][:-1], (0, last)) == "\ufb01l"


def test_an_unknown_token_stands_for_its_whole_word():
    vocabulary = Vocabulary((*SPECIAL, "(", ")", "la", "##te"))
    tokenizer = TextTokenizer(vocabulary)
    for word, ids, places, expected in (
        ("(Late)", (5, 7, 8), (0, 2), "(Late"),
        ("(Late)", (7, 8), (1, 2), "Late"),
        ("(Later)", (1,), (1, 1), "(Later)"),
    ):
        assert _text(tokenizer, (word,), ids, places) == expected
