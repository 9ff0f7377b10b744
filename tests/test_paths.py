"""No name in a configuration or a file leads out of its directory."""

import importlib
import json
import typing

import pytest
import tensorflow as tf
import tiny_corpus
import tiny_finetuning
import tiny_networks
from test_architecture import COMMANDS

from electra_tf.checkpoint import hugging_face, loading
from electra_tf.checkpoint.loading import TASK_FILE
from electra_tf.data import prepared_datasets
from electra_tf.data.reading import Records
from electra_tf.data.records import MANIFEST
from electra_tf.finetune import finetuned
from electra_tf.util.errors import UserError
from electra_tf.util.flags import build, leaves

OUTSIDE = ("..", ".", "../x", "/x", "a/../../x", "a/b", "x\0", "../" * 9)
VALUES = {"data_dir": "d", "model_name": "m", "task_names": ["cola"]}


@pytest.mark.parametrize("command", COMMANDS)
def test_names_cannot_leave_the_data_directory(command):
    main = importlib.import_module(f"electra_tf.{command}").main
    config_class = typing.get_type_hints(main)["config"]
    fields = {leaf.field.name for leaf in leaves(config_class)}
    refused = []
    if "model_name" in fields:
        refused += [{"model_name": name} for name in OUTSIDE]
    if "task_names" in fields:
        refused += [
            {"task_kind": kind, "task_names": [name]}
            for kind in ("registered", "classification")
            for name in (*OUTSIDE, "a b", "+", "cola\n")
        ]
    for values in refused:
        with pytest.raises(UserError):
            build(config_class, VALUES | values)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_description_with_other_task_names_is_refused(tmp_path, name):
    learned = {"labels": ["0", "1"], "max_seq_length": 32}
    task = tiny_finetuning.task("sst", metadata=learned)
    finetuned.write_description(tmp_path, [task])
    path = tmp_path / TASK_FILE
    description = json.loads(path.read_text())
    description["tasks"] = {name: description["tasks"]["sst"]}
    path.write_text(json.dumps(description))
    with pytest.raises(UserError):
        finetuned.read_description(tmp_path)
    description["config"]["task"]["task_names"] = [name]
    path.write_text(json.dumps(description))
    with pytest.raises(UserError):
        finetuned.make_task(finetuned.read_description(tmp_path), None)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "x/.."])
def test_a_prepared_data_set_name_cannot_leave_its_directory(name):
    with pytest.raises(ValueError):
        prepared_datasets.find_data_set(name)


def test_a_manifest_cannot_list_records_elsewhere(tmp_path):
    config = tiny_corpus.write(tmp_path / "text", tiny_corpus.DOCUMENTS[:9])
    tiny_corpus.build(config, tmp_path)
    path = tmp_path / MANIFEST
    for name in ("../x", "/x", "a/x"):
        manifest = json.loads(path.read_text())
        manifest["files"][0]["name"] = name
        path.write_text(json.dumps(manifest))
        with pytest.raises((UserError, tf.errors.NotFoundError)):
            pattern = f"{tmp_path}/pretrain_data.tfrecord*"
            Records.open(pattern, config, tiny_corpus.VOCABULARY)


def test_an_index_cannot_list_shards_elsewhere(tmp_path):
    network = tiny_networks.discriminator()
    hugging_face.write(tmp_path, loading.weights_of(network))
    (tmp_path / "model.safetensors").rename(tmp_path / "a.safetensors")
    for shard in ("..", "", "../a.safetensors", "a\0.safetensors", "x/y"):
        index = {"weight_map": {"x": shard}}
        path = tmp_path / "model.safetensors.index.json"
        path.write_text(json.dumps(index))
        with pytest.raises(UserError):
            hugging_face.read(tmp_path)
