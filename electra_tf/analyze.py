r"""Analyses a pre-trained model: its scores and its representations.

python -m electra_tf.analyze --what=minimal_pairs --model=DIR \
  --test=blimp --output_dir=OUT

python -m electra_tf.analyze --what=rerank --model=DIR \
  --dev=dev.jsonl --test=test.jsonl --output_dir=OUT

DIR is a checkpoint of a run, of the original code, or of Hugging Face. Tables
are printed; report.json, report.md and plots go to OUT. --all_checkpoints
analyses every kept checkpoint of <data_dir>/models/<model_name> and plots the
main figures over training FLOPs; if stopped, it resumes where it was.
docs/analysis.md says what each analysis reads and shows.
"""

from typing import TYPE_CHECKING

from etils import epath

from electra_tf.config.analysis import AnalysisConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util import console
from electra_tf.util.errors import UserError
from electra_tf.util.flags import CONFIG_FILE, load_config, run_command

if TYPE_CHECKING:
    from electra_tf.analysis.report import Point


def main(config: AnalysisConfig) -> None:
    """Runs the analysis that the configuration names."""
    console.keep_memory()
    from electra_tf.analysis import report

    if config.all_checkpoints:
        checkpoints = _checkpoints(config.model, config.vocab_file)
        report.analyze_all(config, checkpoints)
    else:
        report.analyze(config)


def _checkpoints(model_dir: str, vocab_file: str) -> dict[str, "Point"]:
    """Returns the readable checkpoints of a run: path -> point in training."""
    from electra_tf.analysis.report import Point
    from electra_tf.checkpoint import loading
    from electra_tf.checkpoint.bundles import Checkpoints
    from electra_tf.pretrain.flops import training_flops

    directory = epath.Path(model_dir)
    run = load_config(directory / CONFIG_FILE, PretrainingConfig)
    checkpoints = Checkpoints(directory, {})
    if not checkpoints.steps():
        raise UserError(f"{model_dir} holds no checkpoints.")
    weights = loading.read(model_dir, vocab_file=vocab_file)
    vocab_size = weights.architecture.encoder.vocab_size
    num_steps, found = run.training.num_train_steps, {}
    for step in checkpoints.steps():
        path = directory / f"model.ckpt-{step}"
        num_flops = training_flops(run, vocab_size, step)
        is_milestone = step in run.milestones
        share = step / num_steps
        found[str(path)] = Point(step, num_flops, share, is_milestone)
    return found


if __name__ == "__main__":
    run_command(main, AnalysisConfig)
