r"""Writes the networks of a pre-training run as SavedModels.

python -m electra_tf.export_saved_model --data_dir=DIR --model_name=NAME

pretrain/export.py lists their signatures. In Python they need TensorFlow and,
for text, TensorFlow Text:

    import tensorflow as tf, tensorflow_text
    model = tf.saved_model.load("saved_model/discriminator/text/1")
    model.serving_default(tf.constant(["the chef ate the meal"]))

On the command line the operations of TensorFlow Text take a wrapper:

    python -c "import tensorflow_text; \
      from tensorflow.python.tools import saved_model_cli as cli; cli.main()" \
      run --dir=saved_model/discriminator/text/1 --tag_set=serve \
      --signature_def=serving_default --input_exprs='text=["the chef ate"]'

Those of ids run in the `saved_model_cli` that comes with TensorFlow.
"""

import dataclasses
import pathlib

from electra_tf.configure_pretraining import RunConfig
from electra_tf.util import config_flags, console


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """A run, and where its networks go."""

    data_dir: str = ""
    """Root of vocabulary, records and models. Required."""

    model_name: str = ""
    """Names the directory <data_dir>/models/<model_name>. Required."""

    checkpoint: str = ""
    """Path of a checkpoint without its ending. Default: the run's newest."""

    output_dir: str = ""
    """Root of the SavedModels. Default:
    <data_dir>/models/<model_name>/saved_model."""

    def __post_init__(self) -> None:
        self.run_config()  # says what is missing

    def run_config(self) -> RunConfig:
        """Returns the part of the run's configuration that says where it is."""
        return RunConfig(data_dir=self.data_dir, model_name=self.model_name)


def main(config: ExportConfig) -> None:
    """Exports what the configuration names."""
    with console.quiet_imports():
        from electra_tf.pretrain import export, pretrained

    run = config.run_config()
    model = pretrained.load(run, config.checkpoint)
    output_dir = config.output_dir or f"{run.model_dir}/saved_model"
    for directory in export.export(model, pathlib.Path(output_dir)):
        console.say(f"Exported {directory}")


if __name__ == "__main__":
    config_flags.run(main, ExportConfig)
