"""A complete fine-tuning run on a custom task."""

import csv
import dataclasses
import json

import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.finetune import run as finetuning_run
from electra_tf.util.errors import UserError


def _config(directory, sizes, **leaves):
    """Writes rows labelled by whether they hold "good" or "bad"."""
    tiny.write_model(directory)
    for split, size in sizes.items():
        leaves[f"{split}_file"] = str(directory / f"{split}.csv")
        _write(directory / f"{split}.csv", size, seed=size)
    return tiny.config(
        directory,
        task_names=("reviews",),
        task_kind="classification",
        text_column="review",
        label_column="stars",
        **leaves,
    )


def _write(path, num_rows, seed):
    random = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "review", "stars"])
        for i in range(num_rows):
            words = list(random.choice(tiny.WORDS[2:], 5))
            words.insert(random.integers(5), tiny.WORDS[i % 2])
            writer.writerow([i, "\n".join(words), ("up", "down")[i % 2]])


def test_dev_rows_that_are_the_training_rows_are_a_warning(tmp_path, capsys):
    config = _config(tmp_path / "a", {"train": 8, "dev": 8})
    (tmp_path / "a/dev.csv").unlink()
    (tmp_path / "a/dev.csv").symlink_to(tmp_path / "a/train.csv")
    finetuning_run.prepare(config)
    warning = "The dev rows of reviews are its training rows"
    assert warning in capsys.readouterr().err
    config = _config(tmp_path / "b", {"train": 30}, dev_fraction=0.5)
    finetuning_run.prepare(config)
    assert warning not in capsys.readouterr().err


def _write_values(directory, split, num_rows, scale=1.0):
    rows = tiny.rows("regression", num_rows)
    for row in rows:
        row["label"] *= scale
    tiny.write(directory, "own", f"{split}.jsonl", rows)


@pytest.mark.slow
def test_a_finished_trial_keeps_the_meaning_of_its_outputs(tmp_path):
    tiny.write_model(tmp_path)
    for split in ("train", "dev"):
        _write_values(tmp_path, split, 8)
    config = tiny.config(
        tmp_path,
        task_names=("own",),
        task_kind="regression",
        num_train_epochs=1.0,
    )
    finetuning_run.run(config)
    run = dataclasses.replace(config.run, do_train=False)
    config = dataclasses.replace(config, run=run)
    path = tmp_path / "models/tiny/dev_predictions/own_dev_1_predictions.jsonl"
    before = path.read_text("utf-8")
    _write_values(tmp_path, "train", 9)  # other rows with the same range
    finetuning_run.run(config)
    _write_values(tmp_path, "train", 8, scale=10.0)
    with pytest.raises(UserError):
        finetuning_run.run(config)
    assert path.read_text("utf-8") == before


@pytest.mark.slow
def test_a_run_learns_a_custom_task_and_predicts_its_test_rows(tmp_path):
    config = _config(
        tmp_path,
        {"train": 96, "test": 20},
        dev_fraction=0.2,
        main_metric="mcc",
        num_train_epochs=10.0,
        iterations_per_loop=10,
    )
    results = finetuning_run.run(config)
    assert results["main_metric"] == "mcc"
    assert results["summary"]["dev"]["mcc"]["median"] > 70
    model_dir = tmp_path / "models" / "tiny"
    lines = (model_dir / "submissions/trial_1/reviews_test.csv").read_text()
    header, *rows = csv.reader(lines.splitlines())
    assert header == ["row", "prediction"]
    hits = [
        row == [str(i), ("up", "down")[i % 2]] for i, row in enumerate(rows)
    ]
    assert np.mean(hits) > 0.8
    assert results["summary"]["test"]["accuracy"]["median"] == pytest.approx(
        100 * np.mean(hits)
    )
    trial = model_dir / "finetuning_models/reviews_model_1/model"
    description = json.loads((trial / "task.json").read_text("utf-8"))
    assert description["tasks"]["reviews"]["labels"] == ["down", "up"]
