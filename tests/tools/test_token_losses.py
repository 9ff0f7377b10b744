"""Losses of groups of tokens are parts of the evaluation's."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import tiny_scoring
import token_losses

from electra_tf.data import preparation
from electra_tf.pretrain import evaluation, pretrain_data
from electra_tf.pretrain.metrics import FakeData, ForwardPass
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.util.errors import UserError

NUM_DOCUMENTS = 60


@pytest.fixture(
    scope="module",
    params=["electra", pytest.param("mlm", marks=pytest.mark.slow)],
)
def evaluated(request, tmp_path_factory):
    """Returns the data directory of a run on packed rows, and its metrics."""
    data_dir = tmp_path_factory.mktemp("data")
    documents = [f"w{i} w{i + 1} w7 w8 w9 " * 3 for i in range(NUM_DOCUMENTS)]
    (data_dir / "corpus.txt").write_text("\n\n".join(documents))
    model, _ = tiny_scoring.write_run(
        data_dir,
        objective=request.param,
        corpus=(str(data_dir / "corpus.txt"),),
        packing="packed",
        held_out_fraction=0.5,
        max_seq_length=32,
    )
    held_out = preparation.prepare(model.config).held_out
    rows = pretrain_data.evaluation_dataset(held_out, batch_size=32)
    return data_dir, evaluation.evaluate(model, rows)


def _measure(data_dir, capsys, **options):
    capsys.readouterr()
    config = token_losses.TokenLossesConfig(
        data_dir=str(data_dir), model_name="tiny", **options
    )
    token_losses.main(config)
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"border": 10}, ["0 to 9", "10 to 31"]),
        ({"by": "copies", "num_frequent": 0}, ["once", "again"]),
    ],
    ids=["position", "copies"],
)
def test_both_groups_together_have_the_metrics_of_the_evaluation(
    evaluated, capsys, monkeypatch, options, names
):
    """Rows have the masks of the evaluation, whatever the batch."""
    data_dir, metrics = evaluated
    monkeypatch.setattr(token_losses, "_BATCH_SIZE", 8)
    report = _measure(data_dir, capsys, **options)
    assert [*report] == names
    parts = report.values()
    count = sum(part["num_slots"] for part in parts)
    total = sum(x["num_slots"] * x.get("masked_lm_loss", 0) for x in parts)
    assert total / count == pytest.approx(metrics["masked_lm_loss"], rel=1e-5)
    assert {"num_tokens" in x for x in parts} == {"disc_auc" in metrics}
    if "disc_auc" in metrics:
        assert sum("disc_auc" in x for x in parts) >= 1
        replaced = sum(
            x["num_tokens"] * x.get("replaced_share", 0) for x in parts
        )
        share = replaced / sum(x["num_tokens"] for x in parts)
        assert share == pytest.approx(metrics["replaced_share"], rel=1e-5)


@pytest.fixture
def made():
    """Returns two documents, 1 and 2, and padding; 4 is [MASK].

    The fourth masked slot keeps its token, 7.
    """
    ids = tf.constant([[5, 5, 6, 6, 5, 7, 9, 0]])
    numbers = tf.constant([[1, 1, 1, 1, 2, 2, 2, 0]])
    masked = tf.constant([[4, 5, 4, 4, 5, 7, 9, 0]])
    return ForwardPass(
        inputs=Inputs(ids, numbers, numbers),
        masked=Masked(
            Inputs(masked, numbers, numbers),
            tf.constant([[0, 2, 3, 5, 6]]),
            tf.constant([[5, 6, 6, 7, 9]]),
            tf.constant([[1.0, 1.0, 1.0, 1.0, 0.0]]),
        ),
        mlm_logits=tf.zeros([1, 5, 10]),
    )


def test_a_copy_is_an_equal_token_elsewhere_in_the_document(made):
    """7 is no copy of itself, a masked 6 none of the other; 9 is left out."""
    slots, tokens = token_losses._by_copies(np.int32([9]))(made)
    assert slots.numpy().tolist() == [[1, 0, 0, 0, -1]]
    assert tokens.numpy()[:, :-1].tolist() == [[1, 1, 1, 1, 0, 0, -1]]


def test_copies_are_those_that_the_discriminator_sees(made):
    seen = tf.constant([[8, 5, 6, 8, 5, 7, 9, 0]])
    fake = FakeData(made.inputs._replace(input_ids=seen), None, None)
    made = dataclasses.replace(made, fake=fake)
    _, tokens = token_losses._by_copies(np.int32([9]))(made)
    assert tokens.numpy()[:, :-1].tolist() == [[1, 0, 0, 1, 0, 0, -1]]


def test_the_second_group_begins_at_the_border_of_each_document(made):
    slots, tokens = token_losses._by_position(2)(made)
    assert slots.numpy().tolist() == [[0, 1, 1, 0, 1]]
    assert tokens.numpy()[:, :-1].tolist() == [[0, 0, 1, 1, 0, 0, 1]]


def test_unused_slots_and_padding_are_of_no_group(made):
    group = token_losses._by_position(2)
    slots, tokens = token_losses._of_slots_and_tokens(made, group)
    assert slots["group"].numpy().tolist() == [[0, 1, 1, 0, -1]]
    assert tokens["group"].numpy().tolist() == [[0, 0, 1, 1, 0, 0, 1, -1]]
    assert [*tokens] == ["group"]


def test_a_summary_is_of_its_group_alone():
    slots = {"group": [0, 1, 0, -1], "loss": [1.0, 2.0, 4.0, 8.0]}
    tokens = {
        "group": [0, 0, 1, 1, 1, -1],
        "is_fake": [1, 0, 1, 0, 0, 1],
        "logit": [2.0, 1.0, -1.0, 3.0, 0.0, 5.0],
    }
    pair = [{k: np.array(v) for k, v in x.items()} for x in (slots, tokens)]
    first, second = (token_losses._summary(*pair, group) for group in (0, 1))
    assert list(first.values()) == [2, 2.5, 2, 0.5, 1.0]
    assert list(second.values()) == [1, 2.0, 3, pytest.approx(1 / 3), 0.0]
    assert [*first] == [
        "num_slots",
        "masked_lm_loss",
        "num_tokens",
        "replaced_share",
        "disc_auc",
    ]


def test_only_so_many_batches_are_read_and_tokens_left_out(
    evaluated, capsys, monkeypatch
):
    left_out, read = [], []

    def measure(model, batches, group):
        read.extend(batches)
        nothing = {"group": np.array([]), "loss": np.array([])}
        return nothing, nothing

    monkeypatch.setattr(token_losses, "_BATCH_SIZE", 4)
    monkeypatch.setattr(token_losses, "_by_copies", left_out.extend)
    monkeypatch.setattr(token_losses, "_measure", measure)
    options = {"by": "copies", "num_frequent": 3, "max_batches": 2}
    report = _measure(evaluated[0], capsys, **options)
    assert [len(batch.input_ids) for batch in read] == [4, 4]
    assert len(left_out) == 3
    assert report == {"once": {"num_slots": 0}, "again": {"num_slots": 0}}


def test_the_most_frequent_tokens_are_those_of_all_batches():
    def batch(*ids):
        ids = tf.constant([ids])
        return Inputs(ids, tf.cast(ids > 0, tf.int32), ids)

    batches = [batch(3, 5, 5, 0, 0, 0), batch(7, 7, 7, 5, 3, 2)]
    assert token_losses._frequent(batches, 2).tolist() == [5, 7]
    assert token_losses._frequent(batches, 0).tolist() == []


def test_positions_restart_in_each_document_of_a_row(evaluated, capsys):
    """Rows have 32 tokens, documents at most 17 with [CLS] and [SEP]."""
    data_dir, _ = evaluated
    report = _measure(data_dir, capsys, border=17)
    past = report["17 to 31"]
    assert past.pop("num_slots") == 0
    assert past in ({}, {"num_tokens": 0})


def test_a_border_behind_the_rows_is_refused(evaluated):
    config = token_losses.TokenLossesConfig(
        data_dir=str(evaluated[0]), model_name="tiny", border=32
    )
    with pytest.raises(UserError, match="lower --border"):
        token_losses.main(config)


def test_a_run_without_held_out_records_is_refused(tmp_path):
    (tmp_path / "corpus.txt").write_text("a b c\n\n" * 40)
    tiny_scoring.write_run(
        tmp_path,
        objective="electra",
        corpus=(str(tmp_path / "corpus.txt"),),
        held_out_fraction=0.0,
        max_seq_length=32,
    )
    config = token_losses.TokenLossesConfig(
        data_dir=str(tmp_path), model_name="tiny", by="copies"
    )
    with pytest.raises(
        UserError, match="with held-out records. Received: none"
    ):
        token_losses.main(config)
