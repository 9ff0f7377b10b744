import re

import pytest
import tensorflow as tf
import tiny

from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.pretrain import evaluation, pretraining_run
from electra_tf.pretrain.pretrain_data import Inputs


@pytest.fixture(scope="module")
def model():
    return pretraining_run.make_model(
        tiny.config(initializer_range=0.5),
        tiny.VOCABULARY,
        tf.distribute.get_strategy(),
    )


def _dataset():
    return tf.data.Dataset.from_tensor_slices(tiny.batch()).batch(8)


def test_every_masked_token_has_a_line_with_its_verdict(model):
    text = evaluation.samples(model, _dataset(), 8)
    keys = evaluation.evaluation_keys(tf.range(8))
    out = model.forward(tiny.batch(), keys=keys, training=False)
    fakes = int(tf.reduce_sum(out.fake.is_fake_tokens))
    verdicts = re.findall(r"(caught|missed|false alarm|same)$", text, re.M)
    assert verdicts.count("caught") + verdicts.count("missed") == fakes
    flagged = (out.disc_logits > 0) & (tiny.batch().input_mask > 0)
    flagged = int(tf.reduce_sum(tf.cast(flagged, tf.int32)))
    right = verdicts.count("caught")
    alarms = verdicts.count("false alarm")
    assert right + alarms == flagged > 0


def test_rows_are_spread_over_the_batch(model):
    parts = evaluation.samples(model, _dataset(), 4).split("\n\n")
    whole = evaluation.samples(model, _dataset(), 8).split("\n\n")
    assert parts == whole[::2]


def test_of_several_documents_in_a_row_the_first_is_shown():
    packed = pretraining_run.make_model(
        tiny.config(initializer_range=0.5, packing="packed"),
        tiny.VOCABULARY,
        tf.distribute.get_strategy(),
    )
    inputs = tiny.packed_batch()
    dataset = tf.data.Dataset.from_tensors(inputs)
    parts = evaluation.samples(packed, dataset, 8).split("\n\n")
    for row, part in enumerate(parts):
        text = part.partition("\n")[0]
        length = (inputs.input_mask.numpy()[row] == 1).sum()
        assert len(text.split()) == length
        assert text.count("CLS") == 1


def test_colour_is_only_for_terminals(model):
    assert "\x1b[" not in evaluation.samples(model, _dataset(), 2)
    assert "\x1b[3" in evaluation.samples(model, _dataset(), 2, in_colour=True)


def test_pieces_are_joined_to_words():
    words = Vocabulary((*SPECIAL_TOKENS, "play", "##ing", "now"))
    assert evaluation._text([5, 6, 7], {}, words, False) == "playing now"
    marked = evaluation._text([5, 6, 7], {1: "missed"}, words, False)
    assert marked == "play[ing] now"


def test_rows_of_padding_are_left_out(model):
    empty = Inputs(*(tf.zeros_like(x) for x in tiny.batch()))
    dataset = tf.data.Dataset.from_tensors(empty)
    assert evaluation.samples(model, dataset, 4) == ""
