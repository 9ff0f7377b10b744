"""A model with the weights that a run left behind."""

import dataclasses
import pathlib

from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.configure_pretraining import PretrainingConfig, RunConfig
from electra_tf.data import vocabularies
from electra_tf.pretrain import pretraining_run
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.util import config_flags, distribution
from electra_tf.util.errors import UserError


def load(run: RunConfig, checkpoint: str = "") -> PretrainingModel:
    """Makes the model of a run and restores a checkpoint.

    Args:
      run: says where its directory is; the data directory may have been moved
        since the run.
      checkpoint: path without the ending; "" for the run's newest.

    Returns:
      The model, on one device.

    Raises:
      UserError: if the directory holds no run, or no checkpoint that fits.
    """
    path = pathlib.Path(run.model_dir, "config.json")
    config = config_flags.load_config(path, PretrainingConfig)
    config = dataclasses.replace(config, run=run)
    model = pretraining_run.make_model(
        config,
        vocabularies.open_vocabulary(config.corpus, config.vocab_file),
        distribution.make_strategy("one"),
    )
    store = Checkpoints(
        run.model_dir, pretraining_run.checkpoint_variables(model)
    )
    if checkpoint:
        store.restore(checkpoint)
    elif store.restore_latest() is None:
        raise UserError(
            f"{run.model_dir} must hold a checkpoint. Received: none. Train "
            "first with run_pretraining, or name one with --checkpoint."
        )
    return model
