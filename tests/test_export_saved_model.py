"""`export_saved_model` needs nothing but the directory of a run."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.export_saved_model import ExportConfig, main
from electra_tf.pretrain import run as pretraining_run
from electra_tf.util.flags import save_config


def test_the_newest_or_the_named_checkpoint_is_exported(tmp_path, capsys):
    config = tiny.config("moved/away", objective="mlm", num_hidden_layers=1)
    model = tiny.model(config)
    model_dir = tmp_path / "models/tiny"
    store = Checkpoints(model_dir, pretraining_run.checkpoint_variables(model))
    shift = model.electra.blocks[-1].output_norm.beta  # moves all states
    for step in (1, 2):
        shift.assign(tf.fill([16], float(step)))
        store.save(step)
    save_config(model_dir / "config.json", config)
    vocab_file = tmp_path / "v.txt"  # moved as well
    vocab_file.write_text("\n".join(tiny.VOCABULARY.tokens) + "\n")
    run = {"data_dir": str(tmp_path), "model_name": "tiny"}
    with pytest.raises((ValueError, OSError)):
        main(ExportConfig(**run))
    run["vocab_file"] = str(vocab_file)
    named = {
        "checkpoint": str(model_dir / "model.ckpt-1"),
        "output_dir": str(tmp_path / "named"),
    }
    inputs = tiny.batch(2)
    newest = model.electra(*inputs).sequence_output
    for flags, root, shift in (
        ({}, model_dir / "saved_model", 0.0),
        (named, tmp_path / "named", 1.0),
    ):
        main(ExportConfig(**run, **flags))
        assert (
            f"Exported {root / 'generator/text/1'}" in capsys.readouterr().out
        )
        network = tf.saved_model.load(root / "generator/ids/1")
        states = network.encode(*inputs)["sequence_output"]
        np.testing.assert_allclose(newest - states, shift, atol=1e-5)


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
