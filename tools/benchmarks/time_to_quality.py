r"""Measures what a held-out AUC costs; prints one JSON line a seed.

    python tools/benchmarks/time_to_quality.py --flagfile=configs/demo.cfg \
        --target_auc=0.85 --num_seeds=3 --optimizer=muon

`run_pretraining`'s own loop trains to the end of its schedule, in a model
directory that is removed afterwards, and is interrupted for evaluations, which
do not count. Records in --data_dir are built first where they are missing.
"""

import contextlib
import dataclasses
import json
import shutil
import sys
import time

import measuring

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util import console
from electra_tf.util.flags import Checked, bounded, run_command


@dataclasses.dataclass(frozen=True, kw_only=True)
class GoalConfig(Checked):
    """The quality to reach."""

    target_auc: float = bounded(0.85, 0.5, 1)
    """Held-out disc_auc whose cost is measured."""
    num_seeds: int = bounded(3, 1)
    """Runs with consecutive seeds, from --seed."""
    updates_between_evaluations: int = bounded(100, 1)
    """Updates from one evaluation to the next."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(Checked):
    """A pre-training run and its goal."""

    goal: GoalConfig = GoalConfig()
    pretraining: PretrainingConfig


def main(config: BenchmarkConfig) -> None:
    """Trains with each seed, and prints the figures."""
    with contextlib.redirect_stdout(sys.stderr):
        console.keep_memory()
        console.limit_intra_op_threads(config.pretraining.num_activations)
    for i in range(config.goal.num_seeds):
        with contextlib.redirect_stdout(sys.stderr):
            report = _measure(config.pretraining, config.goal, i)
        print(json.dumps(report), flush=True)


def _measure(config: PretrainingConfig, goal: GoalConfig, number: int) -> dict:
    """Trains with one seed; returns its curve and the cost of the goal."""
    import keras

    from electra_tf.data import preparation
    from electra_tf.pretrain import evaluation, pretrain_data, run
    from electra_tf.pretrain.flops import training_flops

    seed = config.training.seed + number
    config = dataclasses.replace(
        config,
        training=dataclasses.replace(config.training, seed=seed),
        run=dataclasses.replace(
            config.run,
            model_name=f"time_to_quality_{seed}",
            do_train=True,
            do_eval=False,
            do_export=False,
        ),
    )
    data = preparation.prepare(config)
    held_out = pretrain_data.evaluation_dataset(
        data.held_out, batch_size=config.runtime.eval_batch_size
    )
    curve: list[dict] = []

    class Evaluation(keras.callbacks.Callback):
        """Evaluates at intervals; stops its clock meanwhile."""

        def __init__(self) -> None:
            super().__init__()
            self.seconds, self.began = 0.0, time.monotonic()
            self.step = None

        def on_train_batch_end(self, step: int, logs: object = None) -> None:
            every = goal.updates_between_evaluations
            last = config.training.num_train_steps
            if step // every == (curve[-1]["step"] // every if curve else 0):
                if step < last:
                    return
            self.seconds += time.monotonic() - self.began
            self.step = self.step or evaluation.make_step(self.model)
            metrics = evaluation.evaluate(self.model, held_out, self.step)
            names = ("disc_auc", "disc_loss", "masked_lm_loss")
            curve.append(
                {
                    "step": step,
                    "seconds": round(self.seconds, 1),
                    "flops": training_flops(
                        config, self.model.vocabulary.size, step
                    ),
                    **{n: round(metrics[n], 4) for n in names if n in metrics},
                }
            )
            self.began = time.monotonic()

    shutil.rmtree(config.run.model_dir, ignore_errors=True)
    try:
        run.run(config, [Evaluation()])
    finally:
        shutil.rmtree(config.run.model_dir, ignore_errors=True)
    reached = (x for x in curve if x["disc_auc"] >= goal.target_auc)
    return {
        "benchmark": "time_to_quality",
        **measuring.machine("tensorflow", "keras"),
        "seed": seed,
        "target_auc": goal.target_auc,
        "reached": next(reached, None),
        "end": curve[-1],
        "curve": [[x["step"], x["disc_auc"]] for x in curve],
    }


if __name__ == "__main__":
    run_command(main, BenchmarkConfig)
