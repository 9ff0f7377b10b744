"""A vocabulary warns of marks that are no accents, whatever the tokenizer."""

import pytest

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import lost_marks, vocabularies

_SENTENCES = {
    "Japanese": "パンが好きで、毎日バターと食べます。",
    "Japanese, decomposed": "ハ\u309aンか好き",
    "Hindi": "आज हम पुस्तकालय में किताब पढ़ने गए।",
    "Thai": "วันนี้อากาศดีมาก",
    "German": "Die Straße führt über die Brücke nach Österreich.",
    "German, decomposed": "Die Bru\u0308cke fu\u0308hrt u\u0308ber den Fluss.",
    "Greek": "Η γλώσσα είναι ωραία και πλούσια.",
    "Russian": "Ёлка стоит, и ёжик спит под ней.",
    "Vietnamese": "Tôi muốn học tiếng Việt và ăn phở.",
    "Korean": "오늘은 날씨가 좋아서 도서관에 갑니다.",
    "Chinese": "我們今天去圖書館看書,明天再去學校。",
    "Hebrew": "הלכנו היום לספרייה כדי לקרוא ספר חדש.",
    "symbols": "a ≠ b ☃\ufe0f 1\ufe0f\u20e3",
}
_LOSE_MARKS = ("Japanese", "Japanese, decomposed", "Hindi", "Thai")


def _is_warned(lines, capsys):
    assert [*lost_marks.watch(lines)] == lines
    return "--nostrip_accents keeps them" in capsys.readouterr().err


@pytest.mark.parametrize("language", _SENTENCES)
def test_marks_that_are_no_accents_are_counted(language, capsys):
    is_warned = _is_warned([_SENTENCES[language]], capsys)
    assert is_warned == (language in _LOSE_MARKS)


def test_more_than_one_mark_for_a_hundred_letters_is_too_many(capsys):
    assert not _is_warned(["ガ" + 99 * "a"], capsys)
    assert _is_warned(["ガ" + 98 * "a"], capsys)


def test_a_sample_is_of_all_the_text(capsys, monkeypatch):
    monkeypatch.setattr(lost_marks, "SAMPLE_LINES", 100)
    assert _is_warned(["letters"] * 500 + ["ガガガガ"] * 500, capsys)


@pytest.mark.parametrize("tokenizer", ["wordpiece", "sentencepiece"])
@pytest.mark.parametrize(
    ("do_lower_case", "strip_accents", "is_stripped"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_only_text_that_is_stripped_is_warned_of(
    tokenizer, do_lower_case, strip_accents, is_stripped, tmp_path, capsys
):
    (tmp_path / "corpus.txt").write_text(20 * f"{_SENTENCES['Hindi']}\n")
    config = CorpusConfig(
        corpus=(str(tmp_path / "corpus.txt"),),
        tokenizer=tokenizer,
        vocab_size=60,
        do_lower_case=do_lower_case,
        strip_accents=strip_accents,
    )
    path = str(tmp_path / config.default_vocab_name)
    vocabulary = vocabularies.build_vocabulary(config, path)
    has_marks = "\N{DEVANAGARI VOWEL SIGN U}" in "".join(vocabulary.tokens)
    num_warnings = capsys.readouterr().err.count("--nostrip_accents keeps")
    assert (has_marks, num_warnings) == (not is_stripped, is_stripped)
