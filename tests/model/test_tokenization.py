"""Vocabularies, SentencePiece models, and rows and windows of texts."""

import multilingual
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import tiny

from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.sentencepiece_model import learn, normalization
from electra_tf.model.text_reader import TextReader, windows
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.util.errors import UserError


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_ids_are_line_numbers_in_any_file(tmp_path, encoding, newline):
    path = tmp_path / "v"
    text = "\n".join([*SPECIAL_TOKENS, " \u2028é", "b"])
    path.write_text(text, encoding, newline=newline)
    vocabulary = Vocabulary.from_file(str(path))
    assert vocabulary.tokens == (*SPECIAL_TOKENS, "é", "b")
    assert vocabulary.ids["b"] == 6
    special = ("unk_id", "cls_id", "sep_id", "mask_id")
    assert [getattr(vocabulary, name) for name in special] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "tokens",
    [
        SPECIAL_TOKENS[1:],
        SPECIAL_TOKENS[:4],
        (*SPECIAL_TOKENS, "a\n"),
        (*SPECIAL_TOKENS, "x" * 257),
    ],
)
def test_what_is_no_vocabulary_is_refused(tokens):
    with pytest.raises(UserError):
        Vocabulary(tuple(tokens))


@pytest.mark.parametrize(
    ("words", "is_cased"),
    [
        (["a", "##b", "paris", "[unused1]", "[E1]", "<S>", "中"], False),
        ([*(f"word{i}" for i in range(40)), "URL"], False),
        (["a", "##b", "Paris", "paris"], True),
        (["ы", "##ы", "Москва", "中", "文"], True),
        (["中", "文", "1"], False),
    ],
)
def test_a_vocabulary_with_capitals_is_cased(words, is_cased):
    assert Vocabulary((*SPECIAL_TOKENS, *words)).is_cased == is_cased


@pytest.mark.parametrize(
    ("reads_masks", "pieces"), [(True, [6, 4, 7]), (False, [6, 1, 1, 1, 7])]
)
def test_mask_in_text_is_one_token_with_reads_masks(reads_masks, pieces):
    reader = TextReader(tiny.VOCABULARY, reads_masks=reads_masks)
    found = reader.tokenize(tf.constant(["w1[MASK] w2", "w3"]))
    assert found.to_list() == [pieces, [8]]


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_a_mask_stands_for_a_piece_of_a_sentencepiece_model(
    tmp_path, model_type
):
    vocabulary = multilingual.learn_vocabulary(tmp_path, model_type=model_type)
    reader = TextReader(vocabulary, reads_masks=True)
    texts = [x.encode() for x in multilingual.SENTENCES]
    whole = reader.tokenizer.tokenize_with_offsets(tf.constant(texts))
    for text, *pieces in zip(texts, *(x.to_list() for x in whole), strict=True):
        masked, expected = [], []
        for place, (_, start, end) in enumerate(zip(*pieces, strict=True)):
            before = text[:start]
            if place and (not before or before.rstrip() != before):
                continue  # its space is a piece, which is masked with it
            masked.append(before + b"[MASK]" + text[end:])
            expected.append(list(pieces[0]))
            expected[-1][place] = vocabulary.mask_id
        found = reader.tokenize(tf.constant(masked)).to_list()
        assert found == expected
    later = tf.fill([len(texts)], True)
    parts = [
        x.tokenize_parts(tf.constant(texts), later).to_list()
        for x in (reader, TextReader(vocabulary))
    ]
    assert parts[0] == parts[1] != whole.ids.to_list()


@pytest.mark.parametrize("size", [1, 2, 3, 10, 11])
def test_a_token_is_scored_where_its_shorter_side_is_longest(size):
    counts = np.array([*range(1, 30), 101], np.int32)
    found = np.stack(windows(counts, size), 1)  # [W, 5]
    for text, num_tokens in enumerate(counts):
        rows = found[found[:, 0] == text, 1:].tolist()
        assert all(0 < end - start <= size for start, end, *_ in rows)
        owners = [i for i, (*_, a, b) in enumerate(rows) for _ in range(a, b)]
        assert len(owners) == num_tokens
        for token, owner in enumerate(owners):
            sides = [
                min(token - start, end - 1 - token)
                if start <= token < end
                else -1
                for start, end, *_ in rows
            ]
            assert sides[owner] == max(sides) >= 0
            assert sides.index(max(sides)) == owner


LOWER = {"do_lower_case": True, "strip_accents": False}
STRIPPED = {"do_lower_case": True, "strip_accents": True}
CASED = {"do_lower_case": False, "strip_accents": False}
RULES = [LOWER, STRIPPED, CASED, {**STRIPPED, "model_type": "bpe"}]


@pytest.fixture(scope="module", params=RULES, ids=str)
def vocabulary(request, tmp_path_factory):
    options = request.param
    found, again = (
        multilingual.learn_vocabulary(tmp_path_factory.mktemp("x"), **options)
        for _ in range(2)
    )
    assert found == again, "the same text gives the same model"
    expected = options["do_lower_case"], options["strip_accents"]
    assert normalization(found.sentencepiece) == expected
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
