"""A whole run on a custom task."""

import csv
import json

import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.finetune.run import finetuning_run
from electra_tf.util.errors import UserError


def _write(path, num_rows, seed):
    """Writes rows whose label is whether the word "good" is there."""
    random = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "review", "stars"])
        for i in range(num_rows):
            words = list(random.choice(tiny.WORDS[2:], 5))
            words.insert(random.integers(5), tiny.WORDS[i % 2])
            writer.writerow([i, "\n".join(words), ("up", "down")[i % 2]])


def test_a_bad_test_row_is_told_before_the_training(tmp_path):
    tiny.write_model(tmp_path)
    for split in ("train", "dev", "test"):
        _write(tmp_path / f"{split}.csv", 8, seed=1)
    path = tmp_path / "test.csv"
    path.write_text(path.read_text("utf-8") + "9,,up\n", "utf-8")
    config = tiny.config(
        tmp_path,
        task_names=("reviews",),
        task_kind="classification",
        text_column="review",
        label_column="stars",
        train_file=str(tmp_path / "train.csv"),
        dev_file=str(tmp_path / "dev.csv"),
        test_file=str(path),
    )
    with pytest.raises(UserError, match=r"test\.csv, line 50: 'review'"):
        finetuning_run.prepare(config)


@pytest.mark.slow
def test_a_custom_task_is_learnt_and_answered(tmp_path):
    tiny.write_model(tmp_path)
    for split, size in (("train", 96), ("test", 20)):
        _write(tmp_path / f"{split}.csv", size, seed=size)
    config = tiny.config(
        tmp_path,
        task_names=("reviews",),
        task_kind="classification",
        text_column="review",
        label_column="stars",
        train_file=str(tmp_path / "train.csv"),
        test_file=str(tmp_path / "test.csv"),
        dev_fraction=0.2,
        main_metric="mcc",
        num_train_epochs=10.0,
        iterations_per_loop=10,
    )
    whole = finetuning_run.run(config)
    assert whole["main_metric"] == "mcc"
    assert whole["summary"]["dev"]["mcc"]["median"] > 70
    model_dir = tmp_path / "models" / "tiny"
    lines = (model_dir / "submissions/trial_1/reviews_test.csv").read_text()
    header, *rows = csv.reader(lines.splitlines())
    assert header == ["row", "prediction"]
    hits = [
        row == [str(i), ("up", "down")[i % 2]] for i, row in enumerate(rows)
    ]
    assert np.mean(hits) > 0.8
    assert whole["summary"]["test"]["accuracy"]["median"] == pytest.approx(
        100 * np.mean(hits)
    )
    trial = model_dir / "finetuning_models/reviews_model_1/model"
    facts = json.loads((trial / "task.json").read_text("utf-8"))
    assert facts["tasks"]["reviews"]["labels"] == ["down", "up"]
