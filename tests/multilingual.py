"""Text in many scripts, to learn and to test small vocabularies."""

from electra_tf.model import sentencepiece_model
from electra_tf.model.tokenization import Vocabulary

SENTENCES = (
    "The quick brown fox jumps over the lazy dog, again and again.",
    "Die Straße führt über die Brücke nach Österreich.",
    "Où est passé le garçon qui était déjà là ?",
    "我們今天去圖書館看書,明天再去學校。",
    "今日は天気がいいから、図書館へ行きましょう。",
    "오늘은 날씨가 좋아서 도서관에 갑니다.",
    "ذهبنا اليوم إلى المكتبة لنقرأ كتابا جديدا.",
    "הלכנו היום לספרייה כדי לקרוא ספר חדש.",
    "आज हम पुस्तकालय में किताब पढ़ने गए।",
    "Сегодня мы пошли в библиотеку читать книгу.",
    "Great 😀 news 🎉 for 👩‍👩‍👧 and 🇩🇪 today ✨!",
)

AWKWARD = (
    "",
    " \t\n ",
    "e\u0301tude É İ ı ß ẞ ﬁ Ω K",
    "a\u0301\u0323\u0308 q\u0307\u0323 \u0301alone",
    "각 \u1100\u1161\u11a8 がか\u3099",
    "הלכנו עברית \u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u200fRTL\u200e",
    "مَكْتَبَة \u0640\u0640 لا",
    "👩\u200d👩\u200d👧 👍🏽 ☃\ufe0f 🏴\U000e0067\U000e007f",
    "full\uff37\uff49\uff44\uff54\uff48 \u3000 ｶﾞ ㍿ ﷺ",
    "zero\u200bwidth so\u00adft \ufeff \u2060 \u2028 \u00a0end",
    "[CLS] [MASK] [SEP] <s> \u2581under",
    "\U00020000\U0002a6df 龘 \U0001f9ff \ue000 \U000e0001",
    "a\x00b\x01c\x7fd",
    "word " * 300,
    "x" * 1000,
)


def learn_vocabulary(directory, **options):
    """Returns the vocabulary of a SentencePiece model of the sentences."""
    options = {
        "vocab_size": 400,
        "model_type": "unigram",
        "do_lower_case": True,
        "strip_accents": True,
        **options,
    }
    path = directory / "spm.model"
    path.write_bytes(sentencepiece_model.learn(SENTENCES, **options))
    return Vocabulary.from_file(str(path))
