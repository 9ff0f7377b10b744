"""Losses by position are parts of the evaluation's."""

import json

import position_losses
import pytest
import tiny_scoring

from electra_tf.data import preparation
from electra_tf.pretrain import evaluation, pretrain_data
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


def _measure(data_dir, capsys, border):
    capsys.readouterr()
    config = position_losses.PositionLossesConfig(
        data_dir=str(data_dir), model_name="tiny", border=border
    )
    position_losses.main(config)
    return json.loads(capsys.readouterr().out)


def test_both_parts_together_have_the_loss_of_the_evaluation(evaluated, capsys):
    data_dir, metrics = evaluated
    report = _measure(data_dir, capsys, border=10)
    assert [*report] == ["0 to 9", "10 to 31"]
    parts = report.values()
    count = sum(part["num_slots"] for part in parts)
    total = sum(x["num_slots"] * x["masked_lm_loss"] for x in parts)
    assert total / count == pytest.approx(metrics["masked_lm_loss"], rel=1e-5)
    assert {"disc_auc" in x for x in parts} == {"disc_auc" in metrics}


def test_positions_restart_in_each_document_of_a_row(evaluated, capsys):
    """Rows have 32 tokens, documents at most 17 with [CLS] and [SEP]."""
    data_dir, _ = evaluated
    report = _measure(data_dir, capsys, border=17)
    assert report["17 to 31"] == {"num_slots": 0}


def test_a_border_behind_the_rows_is_refused(evaluated):
    config = position_losses.PositionLossesConfig(
        data_dir=str(evaluated[0]), model_name="tiny", border=32
    )
    with pytest.raises(UserError, match="lower --border"):
        position_losses.main(config)
