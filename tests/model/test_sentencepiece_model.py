"""Models are learned, read and checked; the graph gives their ids exactly."""

import multilingual
import pytest
import sentencepiece
import tensorflow as tf

from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.sentencepiece_model import learn, normalization
from electra_tf.model.tokenization import (
    Vocabulary,
)

CASES = {
    "lower": (True, False),
    "stripped": (True, True),
    "cased": (False, False),
}


def make(model_type="unigram", lower=True, strip=True, vocab_size=400):
    return learn(
        multilingual.SENTENCES,
        vocab_size=vocab_size,
        model_type=model_type,
        do_lower_case=lower,
        strip_accents=strip,
    )


@pytest.fixture(scope="module")
def models():
    learned = {name: make("unigram", *case) for name, case in CASES.items()}
    return learned | {"bpe": make("bpe")}


@pytest.fixture(scope="module")
def vocabularies(models, tmp_path_factory):
    found = {}
    for name, model in models.items():
        path = tmp_path_factory.mktemp("models") / f"{name}.model"
        path.write_bytes(model)
        found[name] = Vocabulary.from_file(str(path))
    return found


def processor(model):
    return sentencepiece.SentencePieceProcessor(model_proto=model)


NAMES = [*CASES, "bpe"]


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_gives_the_ids_of_the_reference(vocabularies, name):
    vocabulary = vocabularies[name]
    texts = [*multilingual.SENTENCES, *multilingual.AWKWARD]
    found = make_tokenizer(vocabulary).tokenize(tf.constant(texts))
    expected = processor(vocabulary.sentencepiece).encode(texts)
    assert found.dtype == tf.int32
    assert found.to_list() == expected


@pytest.mark.parametrize("name", NAMES)
def test_parts_of_a_text_have_its_pieces(vocabularies, name):
    tokenizer = make_tokenizer(vocabularies[name])
    texts = [x.encode() for x in multilingual.SENTENCES]
    whole = tokenizer.tokenize_with_offsets(tf.constant(texts))
    parts, expected = [], []
    for text, ids, starts in zip(
        texts, whole.ids.to_list(), whole.starts.to_list(), strict=True
    ):
        for place, start in enumerate(starts):
            first, second = text[:start], text[start:]
            if first and first.rstrip() == first:  # else its space is second's
                parts += [first, second]
                expected += [ids[:place], ids[place:]]
    are_later = [False, True] * (len(parts) // 2)
    found = tokenizer.tokenize_parts(parts, are_later).to_list()
    assert found == expected and len(found) > 100


@pytest.mark.parametrize("name", CASES)
def test_normalization_of_a_model_is_recognized(models, name):
    assert normalization(models[name]) == CASES[name]


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_the_same_text_gives_the_same_model(model_type):
    model = make(model_type)
    assert model == make(model_type)
    assert b"rules.tsv" not in model


def test_continues_word_separates_the_words(vocabularies):
    vocabulary = vocabularies["bpe"]
    graph = make_tokenizer(vocabulary)
    ids = graph.tokenize(tf.constant(["lazy library"]))[0].numpy()
    words = []
    for i in ids:
        if vocabulary.continues_word[i]:
            words[-1] += vocabulary.surface(i)
        else:
            words.append(vocabulary.surface(i))
    assert words == ["lazy", "library"]
    assert not any(vocabulary.continues_word[:5])
