import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny
from tiny import replicas

from electra_tf.checkpoint import loading
from electra_tf.finetune.classification.classification_tasks import (
    ClassificationHead,
    RegressionHead,
)
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import Features
from electra_tf.training.updates import checkpoint_variables
from electra_tf.util import seeds


def _model(others=(), **leaves):
    encoder = loading.make(tiny.weights()).encoder
    heads = [ClassificationHead("sst", 2), *others]
    with seeds.seed_initializers(1):
        model = FinetuningModel(tiny.config(**leaves), encoder, heads, seed=5)
    model.compile(optimizer=model.make_optimizer(10))
    model.optimizer.iterations.assign(1)  # at 0 the rate is 0
    return model


def _features(num_rows=8):
    random = np.random.default_rng(0)
    rows = []
    for eid in range(num_rows):
        ids = random.integers(5, 15, random.integers(3, 12))
        row = {"input_ids": ids, "segment_ids": np.zeros_like(ids)}
        labels = {"label_ids": eid % 2, "targets": eid / 7}
        rows.append({**row, "eid": eid, **labels})
    return Features(rows)


def _batch(task="sst"):
    features = _features()
    return {task: features.batch(tf.range(8), features.length)}


def _after_update(model, task="sst"):
    """Makes one update; returns the weights and the means of the metrics."""
    strategy, batch = model.distribute_strategy, _batch(task)[task]
    count = strategy.num_replicas_in_sync

    def update():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        mine = {
            k: tf.gather(tf.split(x, count), number) for k, x in batch.items()
        }
        return model.update({task: mine})

    sums = tf.nest.map_structure(
        lambda x: float(strategy.experimental_local_results(x)[0]),
        tf.function(strategy.run, autograph=False)(update),
    )
    weights = {v.path: v.numpy() for v in model.trainable_variables}
    return weights, {k: x / n for k, (x, n) in sums.items() if n}


def test_replicas_micro_batches_and_heads_of_other_tasks_change_nothing():
    with replicas(2).scope():
        mirrored = _model()
    weights, metrics = _after_update(_model())
    for model in (
        _model(gradient_accumulation_steps=4),
        _model([RegressionHead("sts", 1)]),
        mirrored,
    ):
        found, found_metrics = _after_update(model)
        for name, value in weights.items():
            np.testing.assert_allclose(
                found[name], value, atol=1e-5, err_msg=name
            )
        assert found_metrics == pytest.approx(metrics, rel=1e-5)


def test_a_batch_updates_only_the_encoder_and_the_head_of_its_task():
    for task, other in (("sst", "sts"), ("sts", "sst")):
        model = _model([RegressionHead("sts", 1)])
        variables = checkpoint_variables(model)
        for name, variable in variables.items():
            if name.endswith("adam_m"):  # with it, Adam moves without gradient
                variable.assign_add(tf.ones(variable.shape))
        before = {name: v.numpy() for name, v in variables.items()}
        _, metrics = _after_update(model, task=task)
        assert f"{other}_loss" not in metrics
        for name, variable in variables.items():
            is_same = (variable.numpy() == before[name]).all()
            is_others = name.startswith(f"task_specific/{other}/")
            assert is_same == is_others, name


def test_the_loss_of_a_batch_is_summed_over_the_rows_of_its_task():
    model = _model([RegressionHead("sts", 1)])
    keys = tf.cast(tf.range(8), tf.uint32)
    batch = _batch("sts")
    outputs = model.outputs("sts", batch["sts"], keys)
    differences = outputs["logits"][:, 0].numpy() - np.arange(8) / 7
    expected = pytest.approx(np.square(differences).sum(), rel=1e-5)
    metrics = model.compute_losses(batch, keys=keys, training=True)
    values = {name: tuple(map(float, x)) for name, x in metrics.items()}
    assert values == {"sts_loss": (expected, 8), "sst_loss": (0, 0)}


def test_replicas_share_the_rows_of_an_evaluation(monkeypatch):
    features, seen = _features(11), []
    reference = _model().outputs_of("sst", features, 11)
    assert reference["eid"].tolist() == list(range(11))
    with replicas(4).scope():
        model = _model()
    compute = model._outputs_and_losses

    def spy(task, batch):
        seen.append(str(tf.distribute.get_replica_context().devices))
        return compute(task, batch)

    monkeypatch.setattr(model, "_outputs_and_losses", spy)
    found = model.outputs_of("sst", features, 6)
    assert found.keys() == reference.keys() and len({*seen}) == 4
    for name, value in reference.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)
