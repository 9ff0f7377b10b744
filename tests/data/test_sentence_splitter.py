"""Sentences end where a reader would say so, in several languages."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.data.sentence_splitter import split_sentences

# "|" stands where a sentence ends.
TEXTS = [
    "The chef cooked. |Then she ate! |Why? |Nobody knows...",
    'He said: "Stop!" and left. |"Stop!" |(She did not.) |Then he left again.',
    "“Is it far?” asked Ann. |‘No.’ |It was 3.5 miles, not 10.",
    "Mr. and Mrs. J. R. Smith met Dr. Lee, Prof. at St. Mary's. |They talked.",
    "See Fig. 3 and e.g. U.S. Army Gen. Grant vs. Lee. |It cost $4.20 in 1990. "
    "|25 people came.",
    "1. Introduction. |2. Methods of No. 12 were used. |Version 1.2.3 is out. "
    "|Visit example.com today.",
    "What?! |No way!! |He hesitated… |Then it was over.",
    "a word. another in lower case is no new sentence",
    "Am 3. Oktober, d. h. bzw. Nr. 5, z. B. Herr Dr. Mai. |„Ja.“ |Über alles.",
    "M. Dupont et Mme. Duval arrivent. |« Où ? » |Élise répond.",
    "El Sr. Pérez llegó. |¿Quién? |¡Nadie! |Ángel no vino.",
    "Он пришёл. |Это А. С. Пушкин? |Да! |Ещё нет.",
    "今日は天気がいい。|図書館へ行きましょう！|「はい。」と彼は言った。|本当？",
    "他说：“你好。”|她走了！|為什麼？！|不知道。",
    "ذهبنا إلى المكتبة. |هل تعرف؟ |نعم.",
    "हम पुस्तकालय गए। |किताब पढ़ी। |फिर लौटे।",
    "円周率は３．１４である．|次の文．",
]


@pytest.mark.parametrize("text", TEXTS)
def test_sentences_end_at_the_marks(text):
    expected = [sentence.strip() for sentence in text.split("|")]
    assert split_sentences(text.replace("|", "")) == expected


@settings(max_examples=50)
@given(st.text() | st.text(alphabet='aB1. !?。」"\u3000\n', max_size=30))
def test_nothing_is_lost_but_white_space(line):
    sentences = split_sentences(line)
    assert "".join("".join(sentences).split()) == "".join(line.split())
    assert len(sentences) >= 1


def test_long_lines_take_time_in_proportion():
    def seconds(number):
        text = "Mr. A. " * number + '.")' * number
        start = time.process_time()
        assert split_sentences(text) == [text]
        return time.process_time() - start

    # 16 times as long takes 16 times as long, or 256 times if quadratic.
    assert seconds(16_000) < 64 * min(seconds(1_000) for _ in range(3))
