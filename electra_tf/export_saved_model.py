r"""Writes SavedModels: of a pre-training run, or of a fine-tuned model.

python -m electra_tf.export_saved_model --data_dir=DIR --model_name=NAME
python -m electra_tf.export_saved_model --model=DIR_OF_A_TRIAL

pretrain/export.py and finetune/export.py list their signatures. In Python
they need TensorFlow and, for text, TensorFlow Text:

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
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """A run or a fine-tuned model, and where its networks go."""

    data_dir: str = ""
    """Root of vocabulary, records and models. Required of a run."""

    model_name: str = ""
    """Names the directory <data_dir>/models/<model_name>. Required of a
    run."""

    model: str = ""
    """Directory of a trial of run_finetuning, or the directory `model` in it:
    to export this instead of a run."""

    task: str = ""
    """The task, of a fine-tuned model that has learnt several."""

    checkpoint: str = ""
    """Path of a checkpoint without its ending. Default: the run's newest."""

    output_dir: str = ""
    """Root of the SavedModels. Default: saved_model in the directory of the
    run or of the trial."""

    def __post_init__(self) -> None:
        if not self.model:
            self.run_config()  # says what is missing
        elif self.data_dir or self.model_name or self.checkpoint:
            raise UserError(
                "Either a run or a fine-tuned `model` can be exported. "
                "Received: both. Set --model alone."
            )

    def run_config(self) -> RunConfig:
        """Returns the part of the run's configuration that says where it is."""
        return RunConfig(data_dir=self.data_dir, model_name=self.model_name)


def main(config: ExportConfig) -> None:
    """Exports what the configuration names."""
    export = _export_trained if config.model else _export_run
    for directory in export(config):
        console.say(f"Exported {directory}")


def _export_run(config: ExportConfig) -> list[pathlib.Path]:
    with console.quiet_imports():
        from electra_tf.pretrain import export, pretraining_run

    run = config.run_config()
    model = pretraining_run.load(run, config.checkpoint)
    output_dir = config.output_dir or f"{run.model_dir}/saved_model"
    return export.export(model, pathlib.Path(output_dir))


def _export_trained(config: ExportConfig) -> list[pathlib.Path]:
    with console.quiet_imports():
        from electra_tf.finetune import export
        from electra_tf.finetune.predictor import Predictor

    predictor = Predictor(config.model, task=config.task)
    output_dir = config.output_dir or f"{config.model}/saved_model"
    return export.export(predictor, pathlib.Path(output_dir))


if __name__ == "__main__":
    config_flags.run(main, ExportConfig)
