import json

import pytest
import tensorflow as tf

from electra_tf.util import distribution
from electra_tf.util.errors import UserError


def test_one_device_is_the_default_strategy():
    strategy = distribution.make_strategy("one")
    assert strategy.num_replicas_in_sync == 1
    assert distribution.is_chief(strategy)
    assert distribution.worker(strategy) == (0, 1)


def test_mirrored_takes_the_logical_cpus_of_a_machine_without_gpus():
    assert distribution.make_strategy("mirrored").num_replicas_in_sync == 4


def test_auto_is_one_device_on_a_plain_machine(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert distribution.make_strategy("auto") is tf.distribute.get_strategy()


def test_multi_worker_without_a_cluster_is_explained(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(UserError, match="TF_CONFIG in every worker"):
        distribution.make_strategy("multi_worker")


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_broken_tf_config_is_explained(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError, match="JSON dictionary"):
        distribution.make_strategy("auto")


def test_auto_follows_tf_config(monkeypatch):
    cluster = {"worker": ["localhost:1", "localhost:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster}))
    assert distribution._automatic() == "multi_worker"


def test_tpu_without_a_tpu_is_explained():
    with pytest.raises(UserError, match="--strategy=auto"):
        distribution.make_strategy("tpu")


def _product(value):
    return lambda x, y: tf.fill([64, 64], tf.constant(value, tf.bfloat16))


@pytest.mark.parametrize(
    ("value", "is_rounded"), [(1 + 19 / 128, True), (1 + 18 / 128, False)]
)
def test_bfloat16_is_there_where_products_are_rounded(
    monkeypatch, capsys, value, is_rounded
):
    monkeypatch.setattr(tf, "matmul", _product(value))
    found = distribution.has_bfloat16.__wrapped__()
    assert found == is_rounded
    said = capsys.readouterr().err
    assert ("computed in float32" in said) != is_rounded
