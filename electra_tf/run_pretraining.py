"""Pre-trains a text encoder: data, training, evaluation, export.

python -m electra_tf.run_pretraining --flagfile=configs/demo.cfg
"""

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util import config_flags, console, memory, signals, threads


@signals.interruptible()
def main(config: PretrainingConfig) -> None:
    """Runs what the configuration asks for."""
    console.say(memory.keep_if(config.runtime.keep_memory))
    console.say(threads.limit_intra_op_threads(config.num_activations))
    with console.quiet_imports():
        from electra_tf.pretrain import run

    run.run(config)


if __name__ == "__main__":
    config_flags.run(main, PretrainingConfig)
