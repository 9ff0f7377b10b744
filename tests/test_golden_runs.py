"""Training runs reproduce the results stored in tests/golden/runs.json.

    python tests/test_golden_runs.py

rewrites the file. Its content changes only in a commit that says what changed,
and why that is right.
"""

import json
import pathlib
import re
import tempfile

import pytest
import tensorflow as tf
import tiny
import tiny_finetuning
from golden_arrays import HERE, close

from electra_tf import run_finetuning

SPLITS = ("train", "dev", "test")
PATH = HERE / "golden/runs.json"
GOLDEN = json.loads(PATH.read_text("utf-8"))
NUM_UPDATES = 20
KINDS = ("classification", "regression", "tagging", "qa")


def pretraining(variant):
    """Trains an objective on synthetic rows, with dropout."""
    config = tiny.config(
        initializer_range=0.2,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        **tiny.VARIANTS[variant],
    )
    model = tiny.model(config, tiny.COUNTED)
    update = tf.function(model.update, autograph=False)
    losses = {name: [] for name in sorted(model.loss_weights)}
    for seed in range(NUM_UPDATES):
        metrics = update(tiny.batch(seed=seed))
        for name, values in losses.items():
            total, weight = map(float, metrics[name])
            values.append(total / max(weight, 1.0))
    return {
        "losses": losses,
        "metrics": {
            name: [float(x) for x in metrics[name]] for name in sorted(metrics)
        },
        "variables": sorted(
            name
            for name in tiny.checkpoint_variables(model)
            if not name.endswith(("adam_m", "adam_v"))
        ),
    }


def finetuning(kind):
    with tempfile.TemporaryDirectory() as data_dir:
        data_dir = pathlib.Path(data_dir)
        tiny_finetuning.write_model(data_dir)
        for split, size in zip(SPLITS, (80, 16, 4), strict=True):
            rows = tiny_finetuning.rows(kind, size, seed=size)
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (data_dir / f"{split}.jsonl").write_text(text, "utf-8")
        config = tiny_finetuning.config(
            data_dir,
            task_names=("mine",),
            task_kind=kind,
            num_train_epochs=NUM_UPDATES * 8 / 80,
            iterations_per_loop=1,
            max_seq_length=24,
            max_query_length=8,
            doc_stride=8,
            **{f"{s}_file": str(data_dir / f"{s}.jsonl") for s in SPLITS},
        )
        run_finetuning.main(config)
        model_dir = data_dir / "models" / "tiny"
        files = [path for path in model_dir.rglob("*") if path.is_file()]
        trial = model_dir / "finetuning_models" / "mine_model_1"
        lines = (trial / "metrics.jsonl").read_text("utf-8").splitlines()
        result = json.loads((trial / "result.json").read_text("utf-8"))
    return {
        "losses": [json.loads(line)["loss"] for line in lines],
        "results": result["metrics"],
        "files": sorted(str(path.relative_to(model_dir)) for path in files),
    }


@pytest.mark.slow
@pytest.mark.parametrize("variant", tiny.VARIANTS)
def test_pre_training_reproduces_the_golden_run(variant):
    assert close(pretraining(variant), GOLDEN["pretraining"][variant])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_fine_tuning_reproduces_the_golden_run(kind):
    assert close(finetuning(kind), GOLDEN["finetuning"][kind])


if __name__ == "__main__":
    text = json.dumps(
        {
            "pretraining": {name: pretraining(name) for name in tiny.VARIANTS},
            "finetuning": {kind: finetuning(kind) for kind in KINDS},
        },
        indent=1,
    )
    # A line for each list.
    text = re.sub(r"\[[^][]*\]", lambda m: " ".join(m[0].split()), text)
    PATH.write_text(text + "\n", "utf-8")
