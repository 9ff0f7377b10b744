r"""Exports a run, any checkpoint, or fine-tuned models as SavedModels.

python -m electra_tf.export_saved_model --data_dir=DIR --model_name=NAME
python -m electra_tf.export_saved_model --checkpoint=PATH --output_dir=DIR
python -m electra_tf.export_saved_model --model=DIR_OF_A_TRIAL[,ANOTHER]

--formats=onnx,tflite also writes the models that take ids in these formats.

--checkpoint takes the original's format, Hugging Face's or ours.
docs/serving.md lists the signatures and their clients. In Python they need
TensorFlow and, for text, TensorFlow Text:

    import tensorflow as tf, tensorflow_text
    model = tf.saved_model.load("saved_model/discriminator/text/1")
    model.serving_default(tf.constant(["the chef ate the meal"]))

`saved_model_cli` needs a wrapper that imports the ops of TensorFlow Text:

    python -c "import tensorflow_text; \
      from tensorflow.python.tools import saved_model_cli as cli; cli.main()" \
      run --dir=saved_model/discriminator/text/1 --tag_set=serve \
      --signature_def=serving_default --input_exprs='text=["the chef ate"]'

Those of ids run in the `saved_model_cli` that comes with TensorFlow.
"""

import dataclasses

from electra_tf.configure_pretraining import RunConfig
from electra_tf.util import config_flags, console, signals, storage
from electra_tf.util.config_fields import Checked, bounded, one_of, require
from electra_tf.util.errors import UserError

_FORMATS = {"onnx", "tflite"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig(Checked):
    """What to export (a run, a checkpoint or fine-tuned models), and where."""

    data_dir: str = ""
    """Root of vocabulary, records and models. Required to export a run."""

    model_name: str = ""
    """Names the directory <data_dir>/models/<model_name>. Required to export a
    run."""

    model: str = ""
    """Export a fine-tuned model instead of a run: the directory of a trial of
    run_finetuning, or the directory `model` in it. Several, separated by
    commas, are exported as one ensemble."""

    task: str = ""
    """Which task to export, if the fine-tuned model has learnt several."""

    checkpoint: str = ""
    """Path of a checkpoint without its file extension: one of the run, or any
    checkpoint if no run is given, then also a directory, of Hugging Face's
    format, too. Default: the run's newest."""

    vocab_file: str = ""
    """Vocabulary of the run or the checkpoint. Default: the one that the run
    was trained with, or the one beside the checkpoint."""

    output_dir: str = ""
    """Root of the SavedModels; required for a checkpoint without a run
    and for an ensemble. Default: saved_model in the directory of the run or of
    the trial."""

    threshold: float = bounded("in (0, 1)", 0.5)
    """`correction`, the SavedModel of discriminator and generator together,
    flags a token whose P(replaced) is greater. Not for `model`."""

    formats: tuple[str, ...] = ()
    """Further formats for the models that take ids: onnx, for ONNX Runtime,
    and tflite, for LiteRT (TensorFlow Lite). Each needs the extra of its
    name, as pip install -e '.[onnx]'."""

    precision: str = one_of("float32", "bfloat16", "int8")
    """Precision of the stored weights. bfloat16 halves their size and computes
    matrix products in bfloat16, for machines with instructions for it; int8
    quarters their size, products stay float32."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "formats", "of onnx and tflite", _FORMATS.issuperset)
        if self.formats and self.precision != "float32":
            raise UserError(
                "`precision` must be float32 if `formats` are written. "
                f"Received: {self.precision}. Export twice, without --formats "
                "and without --precision."
            )
        is_run = bool(self.data_dir or self.model_name)
        if self.model and (is_run or self.checkpoint):
            raise UserError(
                "Either a run or a fine-tuned `model` can be exported. "
                "Received: both. Set --model alone."
            )
        if self.task and not self.model:
            raise UserError(
                "`task` can only be set with `model`, a fine-tuned model. "
                f"Received: task={self.task}. Set --model, or leave --task out."
            )
        if self.model and self.threshold != ExportConfig.threshold:
            raise UserError(
                "`threshold` can only be set without `model`: it is that of "
                f"`correction`. Received: {self.threshold:g}. Leave it out; "
                "that of unanswerable questions is --qa_na_threshold of "
                "run_finetuning."
            )
        if self.is_checkpoint and not self.output_dir:
            raise UserError(
                "`output_dir` must be given with --checkpoint and no run. "
                f"Received: checkpoint={self.checkpoint}. Set --output_dir; or "
                "name its run, with --data_dir and --model_name."
            )
        if self.vocab_file and self.model:
            raise UserError(
                "`vocab_file` can only be set without `model`, which has its "
                f"own. Received: {self.vocab_file}. Leave it out."
            )
        if not (self.model or self.is_checkpoint):
            self.run_config()  # says what is missing

    @property
    def is_checkpoint(self) -> bool:
        """Whether a checkpoint is exported without a run."""
        return bool(self.checkpoint) and not (self.data_dir or self.model_name)

    def run_config(self) -> RunConfig:
        """Returns the part of the run's configuration that says where it is."""
        return RunConfig(data_dir=self.data_dir, model_name=self.model_name)


@signals.interruptible()
def main(config: ExportConfig) -> None:
    """Exports what the configuration names."""
    with console.quiet_imports():  # later imports find TensorFlow loaded
        from electra_tf.serving import portable_models

    export = _export_run
    if config.model:
        export = _export_fine_tuned
    elif config.is_checkpoint:
        export = _export_checkpoint
    if config.formats:
        portable_models.require_packages(config.formats)
    for directory in export(config):
        console.say(f"Exported {directory}")
        if config.formats and directory.parent.name == "ids":
            for path in portable_models.convert(directory, config.formats):
                console.say(f"Exported {path}")


def _export_run(config: ExportConfig) -> list[storage.Path]:
    from electra_tf.pretrain import export, pretraining_run
    from electra_tf.serving import checkpoint_export

    run = config.run_config()
    model = pretraining_run.load(run, config.checkpoint, config.vocab_file)
    step = int(model.optimizer.iterations.numpy())
    output_dir = config.output_dir or f"{run.model_dir}/saved_model"
    return export.export(
        model,
        storage.as_path(output_dir),
        temperature=checkpoint_export.temperature_of(run.model_dir, step),
        threshold=config.threshold,
        precision=config.precision,
    )


def _export_checkpoint(config: ExportConfig) -> list[storage.Path]:
    from electra_tf.checkpoint import checkpoint_formats
    from electra_tf.pretrain import run_facts
    from electra_tf.serving import checkpoint_export

    found = storage.as_path(checkpoint_formats.find(config.checkpoint))
    if run_facts.of_directory(found.parent, 0).has_energies:
        raise UserError(
            "A checkpoint whose discriminator gives energies can only be "
            f"exported as a run. Received: checkpoint={config.checkpoint}, of "
            "objective=electric. Name its run with --data_dir and "
            "--model_name."
        )
    return checkpoint_export.export(
        config.checkpoint,
        storage.as_path(config.output_dir),
        vocab_file=config.vocab_file,
        threshold=config.threshold,
        precision=config.precision,
    )


def _export_fine_tuned(config: ExportConfig) -> list[storage.Path]:
    from electra_tf.checkpoint import bundles
    from electra_tf.finetune import export
    from electra_tf.finetune.predictor import Predictor

    if not (output_dir := config.output_dir):
        parts = bundles.split_paths(config.model)
        if len(parts) > 1:
            raise UserError(
                "`output_dir` must be given for an ensemble. Received: "
                f"{len(parts)} models. Set --output_dir."
            )
        output_dir = f"{parts[0]}/saved_model"
    precision = "bfloat16" if config.precision == "bfloat16" else "float32"
    predictor = Predictor(config.model, task=config.task, precision=precision)
    return export.export(
        predictor, storage.as_path(output_dir), precision=config.precision
    )


if __name__ == "__main__":
    config_flags.run(main, ExportConfig)
