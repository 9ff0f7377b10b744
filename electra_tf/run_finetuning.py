"""Fine-tunes a pre-trained encoder on a task: trials, report, predictions.

python -m electra_tf.run_finetuning --flagfile=configs/finetune/cola.cfg
"""

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.util import console
from electra_tf.util.flags import run_command


def main(config: FinetuningConfig) -> None:
    """Runs what the configuration asks for."""
    console.keep_memory()
    from electra_tf.finetune import run

    run.run(config)


if __name__ == "__main__":
    run_command(main, FinetuningConfig)
