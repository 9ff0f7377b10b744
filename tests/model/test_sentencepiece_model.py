"""Models are learned, read and checked; the graph gives their ids exactly."""

import io
import unicodedata

import multilingual
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.checkpoint import hugging_face_tokenizer as tokenizer
from electra_tf.model import sentencepiece_model
from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.sentencepiece_model import learn, normalization
from electra_tf.model.tokenization import (
    SPECIAL_TOKENS,
    BasicTokenizer,
    Vocabulary,
)
from electra_tf.util.errors import UserError

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


@pytest.fixture(scope="module")
def stripped_tokenizers(vocabularies):
    vocabulary = vocabularies["stripped"]
    return make_tokenizer(vocabulary), processor(vocabulary.sentencepiece)


NAMES = [*CASES, "bpe"]


@pytest.mark.parametrize("name", NAMES)
def test_the_special_tokens_are_the_first_pieces(vocabularies, name):
    vocabulary = vocabularies[name]
    assert vocabulary.tokens[:5] == SPECIAL_TOKENS
    assert vocabulary.kind == "sentencepiece"
    assert (vocabulary.pad_id, vocabulary.mask_id) == (0, 4)
    assert vocabulary.size == processor(vocabulary.sentencepiece).vocab_size()


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_gives_the_ids_of_the_reference(vocabularies, name):
    vocabulary = vocabularies[name]
    texts = [*multilingual.SENTENCES, *multilingual.AWKWARD]
    found = make_tokenizer(vocabulary).tokenize(tf.constant(texts))
    expected = processor(vocabulary.sentencepiece).encode(texts)
    assert found.dtype == tf.int32
    assert found.to_list() == expected


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_the_graph_gives_the_ids_of_any_text(stripped_tokenizers, text):
    graph, reference = stripped_tokenizers
    expected = reference.encode([text])
    assert graph.tokenize(tf.constant([text])).to_list() == expected


def test_bytes_that_are_not_utf8_are_left_out(vocabularies):
    graph = make_tokenizer(vocabularies["bpe"])
    found = graph.tokenize(tf.constant([b"\xffthe\xfe fox", b"the fox"]))
    assert found[0].numpy().tolist() == found[1].numpy().tolist()


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


def test_a_later_part_keeps_pieces_of_unknown_and_of_compound_characters(
    vocabularies,
):
    tokenizer = make_tokenizer(vocabularies["cased"])
    parts = ["龘", "\N{CJK COMPATIBILITY IDEOGRAPH-F900}a", "ﬁ", "", " "]
    found = tokenizer.tokenize_parts(parts, [True] * 5).to_list()
    ids = vocabularies["cased"].ids
    assert found == [[1], [1, ids["a"]], [ids["f"], ids["i"]], [], []]


def test_no_special_token_is_found_in_text(vocabularies):
    text = " ".join(SPECIAL_TOKENS)
    for vocabulary in vocabularies.values():
        ids = make_tokenizer(vocabulary).tokenize(tf.constant([text]))
        assert set(ids.values.numpy()) & {0, 2, 3, 4} == set()


@pytest.mark.parametrize("name", CASES)
def test_normalization_of_a_model_is_recognized(models, name):
    assert normalization(models[name]) == CASES[name]


def test_stripping_leaves_no_mark_and_nothing_upper_case(models):
    normalize = processor(models["stripped"]).normalize
    for text in multilingual.AWKWARD + multilingual.SENTENCES:
        found = unicodedata.normalize("NFD", normalize(text))
        assert not [c for c in found if unicodedata.category(c) == "Mn"]
    assert normalize("ÉTUDE e\u0301tude") == "▁etude▁etude"
    assert normalize("각 \u1100\u1161\u11a8") == "▁각▁각"


def test_a_dotted_capital_i_without_accents_is_that_of_word_pieces(models):
    words = BasicTokenizer(*CASES["stripped"]).tokenize("İZMİR I\u0307ZMIR")
    assert words == ["izmir", "izmir"]
    normalize = processor(models["stripped"]).normalize
    assert normalize("İZMİR I\u0307ZMIR") == "▁izmir▁izmir"


def test_models_without_strip_accents_keep_accents(models):
    assert processor(models["lower"]).normalize("E\u0301") == "▁é"
    assert processor(models["cased"]).normalize("E\u0301") == "▁É"


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_the_same_text_gives_the_same_model(model_type):
    model = make(model_type)
    assert model == make(model_type)
    assert b"rules.tsv" not in model


def test_too_few_pieces_are_an_error():
    with pytest.raises(UserError, match="vocab_size=20.*required_chars"):
        make(vocab_size=20)


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


def test_the_hash_follows_the_model(vocabularies):
    vocabulary = vocabularies["bpe"]
    same_pieces = Vocabulary(vocabulary.tokens, sentencepiece=b"another")
    assert same_pieces.sha256 != vocabulary.sha256
    padded = vocabulary.padded(vocabulary.size + 1)
    assert padded.sha256 != vocabulary.sha256


def train_foreign_model(tmp_path, **pieces):
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(multilingual.SENTENCES),
        model_writer=buffer,
        vocab_size=300,
        hard_vocab_limit=False,
        minloglevel=2,
        **pieces,
    )
    path = tmp_path / "foreign.model"
    path.write_bytes(buffer.getvalue())
    return str(path)


OUR_PIECES = {
    **{"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3},
    **{"pad_piece": "[PAD]", "unk_piece": "[UNK]"},
    **{"bos_piece": "[CLS]", "eos_piece": "[SEP]"},
}


@pytest.mark.parametrize(
    ("pieces", "problem"),
    [
        ({}, r"no \[PAD\] \[UNK\].*first pieces are <unk> <s> </s>"),
        (OUR_PIECES, r"no \[MASK\];"),
        (
            OUR_PIECES | {"user_defined_symbols": ["[MASK]"]},
            r"\[MASK\] is no control piece",
        ),
        (
            OUR_PIECES
            | {"control_symbols": ["[MASK]"], "pad_id": 1, "unk_id": 0},
            r"its first piece is \[UNK\]",
        ),
        (
            OUR_PIECES
            | {"control_symbols": ["[MASK]", "[UNK]"], "unk_piece": "<unk>"},
            "its unknown piece is <unk>",
        ),
    ],
)
def test_models_with_other_special_pieces_are_refused(
    tmp_path, pieces, problem
):
    with pytest.raises(UserError, match=problem):
        Vocabulary.from_file(train_foreign_model(tmp_path, **pieces))


def test_pieces_that_are_no_text_are_refused(tmp_path):
    train_foreign_model(tmp_path)
    path = tmp_path / "foreign.model"
    path.write_bytes(path.read_bytes().replace(b"<unk>", b"\xff\xffnk>"))
    with pytest.raises(UserError, match="can't decode"):
        Vocabulary.from_file(str(path))


def test_a_file_that_is_no_model_is_refused(tmp_path):
    path = tmp_path / "a.model"
    path.write_bytes(b"no model")
    with pytest.raises(UserError, match=r"a\.model"):
        Vocabulary.from_file(str(path))
    with pytest.raises(UserError, match="No such file"):
        sentencepiece_model.read(str(tmp_path / "nothing.model"))


def test_hugging_face_tokenizer_needs_word_pieces(vocabularies):
    with pytest.raises(UserError, match="has word pieces"):
        tokenizer.contents(
            vocabularies["bpe"],
            do_lower_case=True,
            strip_accents=True,
            max_length=512,
        )


def test_the_file_keeps_the_model_and_not_the_padding(vocabularies, tmp_path):
    vocabulary = vocabularies["bpe"]
    path = tmp_path / vocabulary.file_name
    path.write_bytes(vocabulary.padded(64).content)
    assert Vocabulary.from_file(str(path)) == vocabulary
