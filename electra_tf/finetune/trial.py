"""One trial: a training from one seed, its checkpoints and evaluations.

Files in the directory of a trial:
  config.json       the configuration; a resume with another one is refused
  inputs.json       digests of encoder and data; changed ones are refused
  model.ckpt-*      weights, slots and step, to resume from
  metrics.jsonl     training losses
  evaluations.json  metrics on the dev splits at each evaluation
  model/            the chosen weights: a checkpoint with vocabulary, sizes and
                    task, that every command can read
  result.json       written last; a trial that has it is done
"""

import contextlib
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.architecture import STEP
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.checkpoint.loading import RESULT_FILE, TRIAL_MODEL
from electra_tf.config.corpus import Phase
from electra_tf.finetune import finetuned
from electra_tf.finetune.experiment import Experiment, TaskData, Updates
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.model.layers import POLICIES
from electra_tf.model.modeling import recompute_blocks
from electra_tf.training import callbacks, training_utils
from electra_tf.training.training_utils import freed_graphs
from electra_tf.training.updates import checkpoint_variables
from electra_tf.util import console, distribution, files, seeds
from electra_tf.util.errors import UserError
from electra_tf.util.flags import (
    CONFIG_FILE,
    check_same_experiment,
    check_same_inputs,
    save_config,
)

_EVALUATIONS_FILE = "evaluations.json"
_RESTART_SEED_STEP = 1_000_000
_FREE_FIELDS = ("max_restarts", "skip_bad_rows")  # no attempt depends on them


class Trial:
    """A training from one seed."""

    def __init__(
        self, experiment: Experiment, number: int, restart: int = 0
    ) -> None:
        self.experiment = experiment
        self.config = config = experiment.config
        self.number = number
        self.restart = restart
        self.directory = pathlib.Path(config.trial_dir(number, restart))
        self.model_dir = self.directory / TRIAL_MODEL  # of the chosen weights
        self.seed = config.training.seed + number - 1
        self.seed += restart * _RESTART_SEED_STEP
        self.tasks = [data.task for data in experiment.tasks]
        self.is_chief = distribution.is_chief(experiment.strategy)
        self.evaluations: list[dict[str, Any]] = []
        self.result: dict[str, Any] = {}

    @property
    def is_done(self) -> bool:
        """True if the trial is finished."""
        return (self.directory / RESULT_FILE).exists()

    @freed_graphs()
    def run(self) -> None:
        """Trains to the end, or evaluates a finished trial on new splits."""
        self.model_dir.mkdir(parents=True, exist_ok=True)
        lock = contextlib.nullcontext()
        if self.is_chief:
            lock = files.lock_directory(self.directory, "lock")
        with lock:
            path = self.directory / CONFIG_FILE
            if path.exists():
                check_same_experiment(
                    path, self.config, free_fields=_FREE_FIELDS
                )
            elif self.is_chief:
                save_config(path, self.config)
            check_same_inputs(
                self.directory, self.experiment.digests, write=self.is_chief
            )
            if self.is_done:
                self.result = files.read_json(self.directory / RESULT_FILE)
                splits = {x.title for y in self.experiment.tasks for x in y.dev}
                if splits <= self.result["metrics"].keys():
                    return
                self.result |= self.experiment.evaluate(self.model())
            else:
                self.result = self._train()
            if self.is_chief:
                files.write_json(self.directory / RESULT_FILE, self.result)

    def model(self) -> FinetuningModel:
        """Makes the model of the chosen weights, for this process alone."""
        model = self._make_model(tf.distribute.get_strategy())
        store = Checkpoints(self.model_dir, _weights_of(model))
        if store.restore_latest() is None:
            raise UserError(f"{self.model_dir} holds no checkpoint.")
        return model

    def _make_model(self, strategy: tf.distribute.Strategy) -> FinetuningModel:
        experiment, runtime = self.experiment, self.config.runtime
        with seeds.seed_initializers(self.seed), strategy.scope():
            encoder = loading.make(
                experiment.weights, POLICIES[self.config.training.precision]
            ).encoder
            heads = [task.head() for task in self.tasks]
            model = FinetuningModel(self.config, encoder, heads, seed=self.seed)
            optimizer = model.make_optimizer(experiment.num_train_steps)
            model.compile(optimizer=optimizer)
        compiles = distribution.compiles_updates(runtime.jit_compile)
        model.jit_compile_step = compiles
        if runtime.recompute:
            recompute_blocks(model)
        return model

    def _train(self) -> dict[str, Any]:
        experiment, runtime = self.experiment, self.config.runtime
        updates = experiment.updates(self.seed)
        model = self._make_model(experiment.strategy)
        chosen = Checkpoints(self.model_dir, _weights_of(model), keep_max=1)
        store = Checkpoints(
            self.directory, checkpoint_variables(model), keep_max=1
        )
        step = store.restore_latest() or 0
        workers = distribution.Workers(experiment.strategy)
        if workers.count > 1:
            workers.check_same_values(training_utils.weight_digests(store))
        path = self.directory / _EVALUATIONS_FILE
        if path.exists():
            stored = files.read_json(path)
            self.evaluations = [x for x in stored if x["step"] <= step]

        def save(step: int) -> None:
            (store.save if self.is_chief else store.check_finite)(step)
            self._evaluate(model, step, chosen)

        self._evaluate(model, step, chosen)  # if a kill came between the two
        if not model.stop_training:
            training_utils.train(
                model,
                functools.partial(self._batches, updates),
                training_utils.Schedule(
                    num_train_steps=experiment.num_train_steps,
                    iterations_per_loop=runtime.iterations_per_loop,
                    save_checkpoints_steps=runtime.save_checkpoints_steps,
                    milestones=frozenset(experiment.evaluation_steps),
                ),
                strategy=experiment.strategy,
                save=save,
                callbacks=self._callbacks(updates, step),
            )
        return self._finish(int(model.optimizer.iterations.numpy()), chosen)

    def _batches(self, updates: Updates, step: int) -> training_utils.Batches:
        """Makes iterators over each replica's batches, from a step on."""
        shapes, numbers = np.unique(
            np.stack([updates.tasks, updates.lengths], -1),
            axis=0,
            return_inverse=True,
        )
        numbers = numbers.reshape(-1)[step:]
        iterators = [
            self._iterator(
                self.experiment.tasks[task],
                updates.rows[step:][numbers == number],
                int(length),
            )
            for number, (task, length) in enumerate(shapes)
        ]
        if len(iterators) == 1:
            return iterators[0]
        return training_utils.InterleavedBatches(
            tuple(iterators), iter(numbers)
        )

    def _iterator(
        self, data: TaskData, rows: np.ndarray, length: int
    ) -> Iterator:
        """Makes an iterator over each replica's share of the rows [n, B]."""

        def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
            mine = rows_of_worker(
                rows,
                context.input_pipeline_id,
                context.num_input_pipelines,
                context.num_replicas_in_sync,
            )
            dataset = data.train.dataset(mine, length)
            return dataset.map(lambda batch: {data.task.name: batch})

        strategy = self.experiment.strategy
        return iter(strategy.distribute_datasets_from_function(make))

    def _callbacks(
        self, updates: Updates, step: int
    ) -> list[keras.callbacks.Callback]:
        if not self.is_chief:
            return []
        phase = Phase(
            first_step=0,
            end_step=len(updates.lengths),
            batch_size=self.config.training.train_batch_size,
            max_seq_length=int(updates.lengths.max()),
            row_length=float(updates.lengths.mean()),
        )
        log = callbacks.JsonLog(
            self.directory / callbacks.METRICS_FILE,
            first_step=step,
            phases=(phase,),
        )
        bar = callbacks.ProgressBar((phase,), short_names={"loss": "loss"})
        if self.config.runtime.tensorboard:
            return [log, bar, callbacks.TensorBoardLog(self.directory)]
        return [log, bar]

    def _evaluate(
        self, model: FinetuningModel, step: int, store: Checkpoints
    ) -> None:
        """Evaluates once if an evaluation is due; saves the chosen weights."""
        is_due = step in self.experiment.evaluation_steps
        is_new = step not in [x["step"] for x in self.evaluations]
        if is_due and is_new and self.config.run.do_eval:
            evaluation = {"step": step, **self.experiment.evaluate(model)}
            self.evaluations.append(evaluation)
            if self.is_chief:
                if self.chosen is evaluation:
                    store.save(step)
                path = self.directory / _EVALUATIONS_FILE
                files.write_json(path, self.evaluations)
                parts = [
                    f"{split} {name} {value:.2f}"
                    for split, metrics in evaluation["metrics"].items()
                    for name, value in metrics.items()
                ]
                console.say(
                    f"Trial {self.number}, step {step:,} of "
                    f"{self.experiment.num_train_steps:,}: {', '.join(parts)}"
                )
        model.stop_training = self.patience_is_over

    @property
    def chosen(self) -> dict[str, Any]:
        """The evaluation whose weights the trial ends with."""
        if self.config.training.checkpoint == "last":
            return self.evaluations[-1]
        rank = self.experiment.rank
        return max(self.evaluations, key=lambda x: rank(x["metrics"]))

    @property
    def patience_is_over(self) -> bool:
        """True if `--early_stopping` evaluations had no better score."""
        patience = self.config.training.early_stopping
        if not (patience and self.evaluations):
            return False
        scores = [self.experiment.score(x["metrics"]) for x in self.evaluations]
        return len(scores) - 1 - int(np.argmax(scores)) >= patience

    def _finish(self, num_steps: int, store: Checkpoints) -> dict[str, Any]:
        """Saves weights if no evaluation has; returns the result."""
        result = {
            "trial": self.number,
            "restarts": self.restart,
            "directory": self.directory.name,
            "seed": self.seed,
            "num_steps": num_steps,
        }
        thresholds = {}
        is_last = self.config.training.checkpoint == "last"
        steps = [evaluation["step"] for evaluation in self.evaluations]
        if not steps or (is_last and steps[-1] < num_steps):
            result |= {"step": num_steps, "metrics": {}}
            if self.is_chief:
                store.save(num_steps)
        else:
            last = self.evaluations[-1]["metrics"]
            result |= {**self.chosen, "last_metrics": last}
            for task, _, dev, _ in self.experiment.tasks:
                metrics = result["metrics"][dev[0].title]
                thresholds[task.name] = metrics.get(task.threshold_metric)
        if self.is_chief:
            finetuned.describe(
                self.model_dir, self.experiment.weights, self.tasks, thresholds
            )
        return result


def rows_of_worker(
    rows: np.ndarray, worker: int, num_workers: int, num_replicas: int
) -> np.ndarray:
    """Returns the rows of each replica of a worker in turn, [n * R, B / N].

    Shapes: rows [n, B], for N replicas, R of them in each worker.
    """
    size = rows.shape[1] // num_replicas
    by_worker = rows.reshape(-1, num_workers, num_replicas // num_workers, size)
    return by_worker[:, worker].reshape(-1, size)


def _weights_of(model: FinetuningModel) -> dict[str, tf.Variable]:
    """Returns the weights and the step, under the original's names."""
    weights = {v.path: v.value for v in model.trainable_variables}
    return {STEP: model.optimizer.iterations.value, **weights}
