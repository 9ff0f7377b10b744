"""Fine-tunes a pre-trained encoder on a task: trials, report, predictions.

python -m electra_tf.run_finetuning --flagfile=configs/finetune/cola.cfg
"""

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.util import config_flags, console, memory, signals


@signals.interruptible()
def main(config: FinetuningConfig) -> None:
    """Runs what the configuration asks for."""
    console.say(memory.keep_if(config.runtime.keep_memory))
    with console.quiet_imports():
        from electra_tf.finetune.run import finetuning_run

    finetuning_run.run(config)


if __name__ == "__main__":
    config_flags.run(main, FinetuningConfig)
