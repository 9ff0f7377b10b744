"""`export_saved_model` needs nothing but the directory of a run."""

import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.checkpoint import calibration
from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.export_saved_model import ExportConfig, main
from electra_tf.finetune import export as finetune_export
from electra_tf.finetune import predictor
from electra_tf.pretrain import export as pretrain_export
from electra_tf.pretrain import pretraining_run
from electra_tf.serving import checkpoint_export
from electra_tf.util import config_files
from electra_tf.util.errors import UserError


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns a data directory with a run of two checkpoints, and its model."""
    data_dir = tmp_path_factory.mktemp("data")
    vocab = "\n".join(tiny.VOCABULARY.tokens) + "\n"
    (data_dir / "vocab.txt").write_text(vocab)
    config = tiny.config(
        "moved/away", objective="mlm", num_hidden_layers=1, seed=5
    )
    model = pretraining_run.make_model(
        config, tiny.VOCABULARY, tf.distribute.get_strategy()
    )
    model_dir = data_dir / "models/tiny"
    store = Checkpoints(model_dir, pretraining_run.checkpoint_variables(model))
    shift = model.electra.blocks[-1].output_norm.beta  # moves all states
    for step in (1, 2):
        shift.assign(tf.fill([16], float(step)))
        store.save(step)
    config_files.save_config(model_dir / "config.json", config)
    return data_dir, model


def _states(root, inputs):
    network = tf.saved_model.load(root / "generator/ids/1")
    return network.encode(*inputs)["sequence_output"]


def test_the_newest_checkpoint_is_exported(trained, capsys):
    data_dir, model = trained
    main(ExportConfig(data_dir=str(data_dir), model_name="tiny"))
    root = data_dir / "models/tiny/saved_model"
    inputs = tiny.batch(2)
    expected = model.electra(*inputs).sequence_output
    np.testing.assert_allclose(_states(root, inputs), expected, atol=1e-5)
    assert f"Exported {root / 'generator/text/1'}" in capsys.readouterr().out


def test_a_checkpoint_and_a_place_and_a_moved_vocabulary_may_be_named(
    trained, tmp_path
):
    data_dir, output_dir = tmp_path / "data", tmp_path / "exported"
    shutil.copytree(trained[0], data_dir)
    (data_dir / "vocab.txt").rename(tmp_path / "v.txt")
    run = {
        "data_dir": str(data_dir),
        "model_name": "tiny",
        "checkpoint": str(data_dir / "models/tiny/model.ckpt-1"),
        "output_dir": str(output_dir),
    }
    with pytest.raises(UserError, match=r"data/vocab\.txt"):
        main(ExportConfig(**run))
    main(ExportConfig(**run, vocab_file=str(tmp_path / "v.txt")))
    inputs = tiny.batch(2)
    newest = trained[1].electra(*inputs).sequence_output
    difference = newest - _states(output_dir, inputs)
    np.testing.assert_allclose(difference, 1.0, atol=1e-5)


def test_a_directory_without_a_run_is_refused(trained):
    data_dir, _ = trained
    missing = ExportConfig(data_dir=str(data_dir), model_name="other")
    with pytest.raises(UserError, match=r"other/config\.json"):
        main(missing)
    with pytest.raises(UserError, match="--model_name"):
        ExportConfig(data_dir=str(data_dir))


def test_a_checkpoint_of_energies_is_refused_without_its_run(trained, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained[0] / "models/tiny", run)
    config = tiny.config("moved/away", objective="electric")
    config_files.save_config(run / "config.json", config)
    given = ExportConfig(checkpoint=str(run), output_dir=str(tmp_path / "x"))
    with pytest.raises(UserError, match="energies.*--model_name"):
        main(given)
    assert not (tmp_path / "x").exists()


def _options_of(module, monkeypatch):
    """Returns the options that its `export` will be called with."""
    options = {}
    monkeypatch.setattr(
        module, "export", lambda *_, **given: options.update(given) or []
    )
    return options


def test_flags_and_the_temperature_reach_the_export(
    trained, tmp_path, monkeypatch
):
    run = str(shutil.copytree(trained[0], tmp_path / "data"))
    model_dir = tmp_path / "data/models/tiny"
    calibration.write(model_dir, calibration.Calibration(2.0, "text", 0))
    flags = {"threshold": 0.75, "precision": "int8"}
    found = _options_of(pretrain_export, monkeypatch)
    main(ExportConfig(data_dir=run, model_name="tiny", **flags))
    assert found == flags | {"temperature": 2.0}
    flags["vocab_file"] = f"{run}/vocab.txt"
    found = _options_of(checkpoint_export, monkeypatch)
    main(ExportConfig(checkpoint=str(model_dir), output_dir="x", **flags))
    assert found == flags


@pytest.mark.parametrize(
    ("precision", "products"), [("int8", "float32"), ("bfloat16", "bfloat16")]
)
def test_flags_reach_the_export_of_a_fine_tuned_model(
    precision, products, monkeypatch
):
    read = {}
    monkeypatch.setattr(
        predictor, "Predictor", lambda _, **given: read.update(given)
    )
    found = _options_of(finetune_export, monkeypatch)
    main(ExportConfig(model="trial", task="sst", precision=precision))
    assert read == {"task": "sst", "precision": products}
    assert found == {"precision": precision}


def test_an_ensemble_does_not_overwrite_the_export_of_its_first_model():
    with pytest.raises(UserError, match="`output_dir` must .* 2 models"):
        main(ExportConfig(model="trial_1,trial_2"))


def test_int8_is_refused_with_other_formats():
    with pytest.raises(UserError, match="Received: int8. Export twice"):
        ExportConfig(
            data_dir="d", model_name="m", formats=("onnx",), precision="int8"
        )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"data_dir": "d", "model_name": "m", "task": "sst"},
            "`task` can only be set with `model`.*Received: task=sst",
        ),
        (
            {"checkpoint": "c", "output_dir": "o", "task": "sst"},
            "`task` can only be set with `model`.*Received: task=sst",
        ),
        (
            {"model": "trial", "threshold": 0.9},
            "`threshold` can only be set without `model`.*Received: 0.9",
        ),
    ],
)
def test_a_flag_of_another_kind_of_export_is_refused(flags, message):
    with pytest.raises(UserError, match=message):
        ExportConfig(**flags)
    ExportConfig(model="trial", task="sst", threshold=0.5)


def test_formats_are_checked_before_anything_is_written(
    trained, tmp_path, monkeypatch
):
    data_dir, _ = trained
    run = {"data_dir": str(data_dir), "model_name": "tiny"}
    with pytest.raises(UserError, match=r"onnx and tflite.*onyx"):
        ExportConfig(**run, formats=("onnx", "onyx"))
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    config = ExportConfig(**run, output_dir=str(tmp_path), formats=("onnx",))
    with pytest.raises(UserError, match=r"pip install -e '\.\[onnx\]'"):
        main(config)
    assert not list(tmp_path.iterdir())
