import multilingual
import pytest
from golden_qa import GOLDEN

from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa.answer_spans import AnswerTexts, get_final_text
from electra_tf.model import sentencepiece_model
from electra_tf.model.tokenization import BasicTokenizer, Vocabulary


@pytest.mark.parametrize("case", GOLDEN["final_texts"])
def test_texts_are_aligned_as_in_the_original(case):
    tokens = " ".join(BasicTokenizer().tokenize(case["orig_text"]))
    found = get_final_text(case["pred_text"], case["orig_text"], tokens)
    assert found == case["out"]


def test_an_answer_without_tokens_is_the_whole_text():
    assert get_final_text("", "a text", "a text") == "a text"


def test_sentencepiece_spans_are_read_from_the_original_text(tmp_path):
    model = sentencepiece_model.learn(
        multilingual.SENTENCES,
        vocab_size=400,
        model_type="unigram",
        do_lower_case=True,
        strip_accents=True,
    )
    path = tmp_path / "spm.model"
    path.write_bytes(model)
    tokenizer = TextTokenizer(Vocabulary.from_file(str(path)))
    words = ("(It", "was", "Caf\u00e9s,", "no", "ﬁlm")
    texts = AnswerTexts(tokenizer)
    ids = tokenizer.tokenize(words)
    tokens = tokenizer.vocabulary.tokens
    pieces = [[tokens[i] for i in row] for row in ids]
    assert pieces[2][-1] == ","
    assert texts.text(words[2:3], ids[2][:-1]) == "Caf\u00e9s"
    assert texts.text(words[1:3], [*ids[1], *ids[2][:-1]]) == "was Caf\u00e9s"
    # Nothing is aligned where a ligature becomes two letters.
    assert texts.text(words[4:], ids[4][:-1]) == words[4]


def test_an_unknown_token_stands_for_its_whole_word():
    vocabulary = Vocabulary(
        ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "(", ")", "la", "##te")
    )
    texts = AnswerTexts(TextTokenizer(vocabulary))
    assert texts.text(("(Late)",), (5, 7, 8)) == "(Late"
    assert texts.text(("(Late)",), (7, 8)) == "Late"
    assert texts.text(("(Later)",), (1,)) == "(Later)"
