"""Byte offsets and counts of characters against Python's."""

import multilingual
import tensorflow as tf

from electra_tf.model import characters

TEXTS = (*multilingual.SENTENCES, *multilingual.AWKWARD)


def test_bytes_of_characters_are_pythons():
    starts, ends = characters.character_bytes(tf.constant(TEXTS))
    for text, begins, stops in zip(
        TEXTS, starts.to_list(), ends.to_list(), strict=True
    ):
        borders = [len(text[:i].encode()) for i in range(len(text) + 1)]
        assert begins == borders[:-1] and stops == borders[1:]


def test_invalid_bytes_are_of_no_character():
    starts, ends = characters.character_bytes(
        tf.constant([b"\xffa\xc3 \xc3\xa9"])
    )
    assert starts.to_list() == [[1, 3, 4]] and ends.to_list() == [[2, 4, 6]]


def test_num_characters_ignores_spaces():
    found = characters.num_characters(tf.constant(TEXTS)).numpy().tolist()
    assert found == [len(text.replace(" ", "")) for text in TEXTS]


def test_characters_before_a_byte_are_those_of_the_text_up_to_it():
    pairs = [(i, j) for i, x in enumerate(TEXTS) for j in range(len(x) + 1)]
    rows = [i for i, _ in pairs]
    ends = [len(TEXTS[i][:j].encode()) for i, j in pairs]
    found = characters.num_characters_before(tf.constant(TEXTS), rows, ends)
    assert found.numpy().tolist() == [
        len(TEXTS[i][:j].replace(" ", "")) for i, j in pairs
    ]


def test_value_of_row_is_zero_where_there_is_none():
    values = tf.ragged.constant([[5, 6], [], [7]], dtype=tf.int32)
    found = characters.value_of_row(
        values, [0, 2, 1, 0], [1, 0, 9, -7], [True, True, False, False]
    )
    assert found.numpy().tolist() == [6, 7, 0, 0]
