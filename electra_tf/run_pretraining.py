"""Pre-trains a text encoder: data, training, evaluation, export.

python -m electra_tf.run_pretraining --flagfile=configs/demo.cfg
"""

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util import console
from electra_tf.util.flags import run_command


def main(config: PretrainingConfig) -> None:
    """Runs what the configuration asks for."""
    console.keep_memory()
    console.limit_intra_op_threads(config.num_activations)
    from electra_tf.pretrain import run

    run.run(config)


if __name__ == "__main__":
    run_command(main, PretrainingConfig)
