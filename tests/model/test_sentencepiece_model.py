"""Models are learned, read and checked; the graph gives their ids exactly."""

import multilingual
import pytest
import sentencepiece
import tensorflow as tf

from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.sentencepiece_model import learn, normalization
from electra_tf.util.errors import UserError

CASES = {
    "lower": ("unigram", True, False),
    "stripped": ("unigram", True, True),
    "cased": ("unigram", False, False),
    "bpe": ("bpe", True, True),
}
CASED = {"do_lower_case": False, "strip_accents": False}


@pytest.fixture(scope="module", params=CASES)
def vocabulary(request, tmp_path_factory):
    model_type, *case = CASES[request.param]
    options = dict(
        zip(("do_lower_case", "strip_accents"), case, strict=True),
        model_type=model_type,
    )
    found, again = (
        multilingual.learn_vocabulary(tmp_path_factory.mktemp("x"), **options)
        for _ in range(2)
    )
    assert found == again, "the same text gives the same model"
    assert normalization(found.sentencepiece) == (*case,)
    assert b"rules.tsv" not in found.sentencepiece
    return found


def test_an_error_names_no_flag_of_another_command():
    with pytest.raises(UserError, match="vocab_size=9: (?!.*--)"):
        learn(["abcdefg"], vocab_size=9, **CASED)


def test_the_graph_gives_the_ids_of_the_reference(vocabulary):
    texts = [*multilingual.SENTENCES, *multilingual.AWKWARD]
    found = make_tokenizer(vocabulary).tokenize(tf.constant(texts))
    reference = sentencepiece.SentencePieceProcessor(
        model_proto=vocabulary.sentencepiece
    )
    assert found.dtype == tf.int32
    assert found.to_list() == reference.encode(texts)


def test_continues_word_separates_the_words(vocabulary):
    ids = make_tokenizer(vocabulary).tokenize(tf.constant(["lazy library"]))
    words = []
    for i in ids[0].numpy():
        if vocabulary.continues_word[i]:
            words[-1] += vocabulary.surface(i)
        else:
            words.append(vocabulary.surface(i))
    assert words == ["lazy", "library"]
    assert not any(vocabulary.continues_word[:5])
