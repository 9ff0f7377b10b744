"""`export_saved_model` needs nothing but the directory of a run."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.export_saved_model import ExportConfig, main
from electra_tf.pretrain import run as pretraining_run
from electra_tf.util.flags import save_config


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
    save_config(model_dir / "config.json", config)
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
    with pytest.raises((ValueError, OSError)):
        main(ExportConfig(**run))
    main(ExportConfig(**run, vocab_file=str(tmp_path / "v.txt")))
    inputs = tiny.batch(2)
    newest = trained[1].electra(*inputs).sequence_output
    difference = newest - _states(output_dir, inputs)
    np.testing.assert_allclose(difference, 1.0, atol=1e-5)


@pytest.mark.parametrize(
    "flags",
    [
        {"model": "trial", "data_dir": "d", "model_name": "m"},
        {"checkpoint": "c"},
        {"data_dir": "d", "model_name": "missing"},
    ],
)
def test_flags_that_do_not_fit_are_refused(flags):
    with pytest.raises((ValueError, OSError)):
        main(ExportConfig(**flags))
