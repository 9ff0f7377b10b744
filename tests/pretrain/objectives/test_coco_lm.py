import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.pretrain.objectives import coco_lm
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.random_keys import Purpose, draw

CLS, SEP = tiny.VOCABULARY.cls_id, tiny.VOCABULARY.sep_id


def _model(**leaves):
    small = {"contrast_group": 4, "num_hidden_layers": 1}
    return tiny.model(tiny.config(objective="coco_lm", **small | leaves))


def _contrast(views, group):
    """Returns each row's contrastive loss by the paper's formula."""
    a, b = (views[:, i].astype(np.float64) for i in (0, 1))

    def similarity(u, v):
        return u @ v / np.sqrt((u @ u) * (v @ v))

    losses = []
    for i in range(len(a)):
        first = i // group * group
        rows = range(first, min(first + group, len(a)))
        for u, v, own in ((a[i], b[i], a), (b[i], a[i], b)):
            other = b if own is a else a
            against = [similarity(u, own[j]) for j in rows if j != i]
            against += [similarity(u, other[j]) for j in rows]
            losses.append(np.log(np.exp(against).sum()) - similarity(u, v))
    return np.array(losses).reshape(-1, 2).mean(-1)


@pytest.mark.parametrize("group", [2, 3, 4])
def test_the_contrastive_loss_compares_both_views_within_a_group(group):
    rng = np.random.default_rng(0)
    views = rng.normal(size=(8, 2, 5)).astype(np.float32)
    views[:, 1] += 2 * views[:, 0]
    terms = coco_lm.contrast_metrics(views, tf.ones([8]), group=group)
    expected = _contrast(views, group)
    tiny.assert_means(terms, {"contrast_loss": expected.mean()})
    assert terms["contrast_loss"].weight == 8


def test_a_crop_is_a_part_of_the_row_from_any_place_on():
    words = np.arange(10, 20)
    ids = np.array([[CLS, *words, SEP, 0], [CLS, 7, SEP, *[0] * 10], [0] * 13])
    segments = np.array([[0] * 6 + [1] * 6 + [0], [0] * 13, [0] * 13])
    inputs = Inputs(
        *(tf.constant(x, tf.int32) for x in (ids, ids > 0, segments))
    )
    for where, first in ((0.0, 0), (0.3, 1), (0.99, 4)):
        found = coco_lm.crop(inputs, 0.6, tf.fill([3], where), tiny.VOCABULARY)
        part = [CLS, *words[first : first + 6], SEP]
        expected = [part + [0] * 5, [CLS, 7, SEP] + [0] * 10, [0] * 13]
        np.testing.assert_array_equal(found.input_ids, expected)
        np.testing.assert_array_equal(found.input_mask, found.input_ids > 0)
        kept = segments[0, 1 + first : 7 + first]
        np.testing.assert_array_equal(found.segment_ids[0, 1:7], kept)


def test_losses_equal_their_formulas():
    model = _model(initializer_range=0.3)
    inputs = tiny.batch()
    out, terms = tiny.forward(model, inputs)
    where = draw(KEYS, Purpose.CROP, ())
    crop = coco_lm.crop(inputs, coco_lm.CROP_SHARE, where, tiny.VOCABULARY)
    head = model.contrast_predictions
    views = [
        head.layer_norm(
            tf.nn.gelu(head.dense(model.electra(*x).sequence_output[:, 0]))
        ).numpy()
        for x in (out.fake.inputs, crop)
    ]
    contrast = _contrast(np.stack(views, 1), 4).mean()
    nats = tiny.softmax_nats(out.corrector_logits, out.masked.ids)
    corrector = nats[out.masked.weights.numpy() > 0].mean()
    tiny.assert_means(terms, {"contrast_loss": contrast}, rtol=1e-4)
    tiny.assert_means(terms, {"corrector_loss": corrector})
