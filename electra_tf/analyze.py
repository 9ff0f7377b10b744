r"""Analyses a pre-trained model: its scores and its representations.

python -m electra_tf.analyze --what=minimal_pairs --model=DIR \
  --test=blimp --output_dir=OUT

python -m electra_tf.analyze --what=rerank --model=DIR \
  --dev=dev.jsonl --test=test.jsonl --output_dir=OUT

DIR is a checkpoint of a run, of the original code, or of Hugging Face. Tables
are printed; report.json, report.md and plots go to OUT.
docs/analysis.md says what each analysis reads and shows.
"""

from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util import console
from electra_tf.util.flags import run_command


def main(config: AnalysisConfig) -> None:
    """Runs the analysis that the configuration names."""
    console.keep_memory()
    from electra_tf.analysis import report

    report.analyze(config)


if __name__ == "__main__":
    run_command(main, AnalysisConfig)
