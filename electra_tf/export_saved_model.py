"""Exports a run, any checkpoint, or a fine-tuned model as SavedModels.

python -m electra_tf.export_saved_model --data_dir=DIR --model_name=NAME
python -m electra_tf.export_saved_model --checkpoint=PATH --output_dir=DIR
python -m electra_tf.export_saved_model --model=DIR_OF_A_TRIAL

--formats=onnx,tflite also writes the models that take ids in these formats.

--checkpoint takes the original's format, Hugging Face's or ours.
docs/serving.md lists the signatures and their clients. In Python they need
TensorFlow and, for text, TensorFlow Text:

    import tensorflow as tf, tensorflow_text
    model = tf.saved_model.load("saved_model/discriminator/text/1")
    model.serving_default(tf.constant(["the chef ate the meal"]))
"""

import dataclasses

from etils import epath

from electra_tf.configure_pretraining import RunConfig
from electra_tf.util import console
from electra_tf.util.errors import UserError
from electra_tf.util.flags import Checked, run_command, some_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig(Checked):
    """What to export (a run, a checkpoint or a fine-tuned model), and where."""

    data_dir: str = ""
    """Root of vocabulary, records and models. Required to export a run."""
    model_name: str = ""
    """Name of the run, in <data_dir>/models. Required to export a run."""
    model: str = ""
    """Export a fine-tuned model: the directory of a trial, or the directory
    `model` in it."""
    task: str = ""
    """Task to export, if the fine-tuned model has several."""
    checkpoint: str = ""
    """Checkpoint of the run, or any checkpoint if no run is given. Default: the
    run's newest."""
    vocab_file: str = ""
    """Vocabulary. Default: the one the checkpoint was trained with."""
    output_dir: str = ""
    """Root of the SavedModels. Default: saved_model in the directory of the run
    or of the trial."""
    formats: tuple[str, ...] = some_of("onnx", "tflite")
    """Further formats for the models that take ids: onnx and tflite (LiteRT),
    which need the extras of their names."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model and (self.data_dir or self.model_name or self.checkpoint):
            raise UserError("Set --model, or a run or checkpoint, not both.")
        if self.is_checkpoint and not self.output_dir:
            raise UserError("--checkpoint needs --output_dir.")
        if not (self.model or self.is_checkpoint):
            self.run_config()  # says what is missing

    @property
    def is_checkpoint(self) -> bool:
        """True if a checkpoint is exported without a run."""
        return bool(self.checkpoint) and not (self.data_dir or self.model_name)

    def run_config(self) -> RunConfig:
        """Returns the part of the run's configuration that says where it is."""
        return RunConfig(data_dir=self.data_dir, model_name=self.model_name)


def main(config: ExportConfig) -> None:
    """Exports what the configuration names."""
    from electra_tf.serving import endpoints, portable

    if config.model:
        directories = _export_fine_tuned(config)
    elif config.is_checkpoint:
        networks = endpoints.of_checkpoint(config.checkpoint, config.vocab_file)
        directories = endpoints.export(networks, config.output_dir)
    else:
        directories = _export_run(config)
    for directory in directories:
        console.say(f"Exported {directory}")
        if config.formats and directory.parent.name == "ids":
            for path in portable.convert(directory, config.formats):
                console.say(f"Exported {path}")


def _export_run(config: ExportConfig) -> list[epath.Path]:
    from electra_tf.pretrain import export
    from electra_tf.pretrain import run as pretraining_run
    from electra_tf.serving import endpoints

    run = config.run_config()
    model = pretraining_run.load(run, config.checkpoint, config.vocab_file)
    step = int(model.optimizer.iterations.numpy())
    return export.export(
        model,
        epath.Path(config.output_dir or f"{run.model_dir}/saved_model"),
        temperature=endpoints.temperature_of(run.model_dir, step),
    )


def _export_fine_tuned(config: ExportConfig) -> list[epath.Path]:
    from electra_tf.finetune import export
    from electra_tf.finetune.finetuned import Predictor

    predictor = Predictor(config.model, task=config.task)
    directory = config.output_dir or f"{config.model}/saved_model"
    return export.export(predictor, epath.Path(directory))


if __name__ == "__main__":
    run_command(main, ExportConfig)
