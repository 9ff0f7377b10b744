"""The encoder's defaults, and training on several tasks together."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.checkpoint import loading
from electra_tf.finetune import experiment as experiments
from electra_tf.finetune import run
from electra_tf.finetune.experiment import (
    Experiment,
    Split,
    TaskData,
    read_task,
)
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.util import seeds


def _read(path, **leaves):
    config = tiny.config(init_checkpoint=str(path), **leaves)
    return experiments.read_encoder(config)


def test_the_encoder_of_a_fine_tuned_model_is_taken_without_its_head(tmp_path):
    read = _read(tiny.write_trained(tmp_path, "sst"))
    np.testing.assert_equal(dict(read.arrays), tiny.weights().arrays)


def test_letter_case_is_that_of_pre_training_unless_flags_are_given(tmp_path):
    switches = {"do_lower_case": False, "strip_accents": None}
    weights = dataclasses.replace(tiny.weights(), **switches)
    loading.write(tmp_path, weights, "electra_tf")
    for leaves, expected in (({}, False), ({"do_lower_case": "true"}, True)):
        read = _read(tmp_path, **leaves)
        assert (read.do_lower_case, read.strip_accents) == (expected, True)
        (ids,) = TextTokenizer.of(read).tokenize(["Good"])
        assert (ids == tiny.VOCABULARY.unk_id) == (not expected)


RATES = {"learning_rate": 5e-4, "layerwise_lr_decay": 0.5}
DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.3}


@pytest.mark.parametrize(
    ("before", "leaves", "expected"),
    [
        (0.0, {}, (1e-3, 0.8, 0.1, 0.1)),
        (0.2, {}, (1e-3, 0.8, 0.2, 0.2)),
        (0.2, {**RATES, **DROPOUT}, (5e-4, 0.5, 0.0, 0.3)),
    ],
)
def test_settings_are_flags_or_follow_the_encoder(before, leaves, expected):
    weights = tiny.weights()
    architecture = weights.architecture.with_fields(
        hidden_size=128,
        max_position_embeddings=64,
        **dict.fromkeys(DROPOUT, before),
    )
    config, weights = experiments.resolve_defaults(
        tiny.config(**{"learning_rate": None, **leaves}),
        dataclasses.replace(weights, architecture=architecture),
    )
    for part in (config.training, weights.architecture.encoder):
        found = [
            *(getattr(config.optimizer, name) for name in RATES),
            *(getattr(part, name) for name in DROPOUT),
        ]
        assert tuple(found) == expected


def test_the_digest_of_an_encoder_is_of_its_weights_and_tokenizer():
    weights = tiny.weights()
    name = "electra/embeddings/word_embeddings"
    table = weights.arrays[name].copy()
    table.flat[-1] = np.nextafter(table.flat[-1], np.inf)
    tokens = (*tiny.VOCABULARY.tokens[:-1], "##z")
    vocabulary = dataclasses.replace(tiny.VOCABULARY, tokens=tokens)
    digest = experiments.digest_of_encoder(weights)
    for changes, is_same in (
        ({"origin": "elsewhere"}, True),
        ({"arrays": weights.arrays | {"global_step": np.array(7)}}, True),
        ({"arrays": weights.arrays | {name: table}}, False),
        ({"vocabulary": vocabulary}, False),
        ({"do_lower_case": False}, False),
    ):
        changed = dataclasses.replace(weights, **changes)
        assert (experiments.digest_of_encoder(changed) == digest) == is_same


ROWS = {"cola": 1600, "sst": 400}


def _experiment(epochs=(1.0, 1.0), **leaves):
    config = tiny.config(task_names=tuple(ROWS), **leaves)
    data = []
    for name, num_epochs in zip(ROWS, epochs, strict=True):
        task = types.SimpleNamespace(
            name=name,
            config=config,
            num_train_epochs=num_epochs,
            main_metric="accuracy",
            score=lambda outputs, examples: {"accuracy": outputs, "loss": 0.0},
            is_degenerate=lambda outputs, examples: outputs == 20,
        )
        dev = [
            Split(task, split, f"{name}_{split}", (), None)
            for split in ("dev", "dev_other")
        ]
        rows = types.SimpleNamespace(num_rows=ROWS[name])
        data.append(TaskData(task, rows, dev))
    return Experiment(config, tuple(data), None, None, {})


@pytest.mark.parametrize("alpha", [1.0, 0.5, 0.0])
def test_the_share_of_a_task_is_its_size_to_the_power_of_alpha(alpha):
    experiment = _experiment(train_batch_size=4, task_sampling_alpha=alpha)
    schedule = experiment.task_schedule(0)
    assert len(schedule) == experiment.num_train_steps == 500
    expected = 500 * 1600**alpha / (1600**alpha + 400**alpha)
    assert abs((schedule == 0).sum() - expected) < 3


def test_at_alpha_1_each_task_trains_for_its_own_epochs():
    experiment = _experiment(epochs=(1.0, 10.0), train_batch_size=4)
    counts = np.bincount(experiment.task_schedule(0))
    assert experiment.num_train_steps == (1600 + 4000) / 4
    np.testing.assert_allclose(counts, [400, 1000], atol=2)
    # A row is seen 2.8 times on average.
    assert experiment.evaluation_steps == [467, 933, 1400]


def test_a_sample_of_the_training_examples_keeps_their_order(tmp_path):
    def training_ids(**leaves):
        leaves |= {"do_eval": False, "checkpoint": "last", "seed": 3}
        train = read_task(tiny.task("sst", tmp_path, **leaves), {}).train
        return train.batch(tf.range(train.num_rows), 32)["input_ids"].numpy()

    tiny.write_sst(tmp_path)
    sample = np.sort(seeds.permutation(48, 3)[:12])
    np.testing.assert_array_equal(
        training_ids(max_train_examples=12), training_ids()[sample]
    )


def test_the_meaning_of_outputs_is_among_the_digests(tmp_path):
    def digest(labels):
        rows = [{"text": "a", "label": label} for label in labels]
        tiny.write(tmp_path, "own", "train.jsonl", rows)
        digests = {}
        read_task(tiny.task("regression", tmp_path, **leaves), digests)
        return digests["own outputs"]

    leaves = {"do_train": False, "do_eval": False}
    assert digest([0, 5]) == digest([0, 3, 5]) != digest([0, 50])


def test_the_score_of_several_tasks_is_the_mean_of_main_metrics():
    experiment, values = _experiment(), {"cola": 20.0, "sst": 90.0}
    evaluation = experiment.evaluate(
        types.SimpleNamespace(outputs_of=lambda task, *_: values[task])
    )
    metrics = evaluation["metrics"]
    assert list(metrics) == [
        *("cola_dev", "cola_dev_other", "sst_dev", "sst_dev_other", "all")
    ]
    assert metrics["sst_dev"]["accuracy"] == 90
    assert metrics["all"] == {"mean": 55.0}
    metrics |= {"sst_dev_other": {"accuracy": 0.0}}
    assert experiment.score(metrics) == 55, "other splits do not choose"
    assert not evaluation["collapsed"]


@pytest.mark.parametrize(("text", "share"), [("a film", 0), ("ü" * 201, 1)])
def test_the_share_of_unknown_tokens_is_in_the_log(
    text, share, tmp_path, capsys
):
    leaves = {"do_eval": False, "checkpoint": "last"}
    rows = [{"text": f"{text} {text}", "label": label} for label in "xy"]
    tiny.write(tmp_path, "own", "train.jsonl", rows)
    task = tiny.task("classification", tmp_path, **leaves)
    data = read_task(task, {})
    assert data.train.share_unknown(tiny.VOCABULARY) == share
    shared = Experiment(task.config, (data,), tiny.weights(), None, {})
    run._log(task.config, shared)
    out, err = capsys.readouterr()
    assert f"{share:.1%}" in out and len(err.splitlines()) == share
