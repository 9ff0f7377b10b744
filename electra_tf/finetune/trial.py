"""One trial: a training from one seed, its checkpoints and evaluations.

Files in the directory of a trial:
  config.json       the configuration; a resume with another one is refused
  inputs.json       digests of encoder and data; likewise
  model.ckpt-*      weights, slots and step, to resume from
  metrics.jsonl     training losses
  evaluations.json  metrics on the dev splits at each evaluation
  model/            the chosen weights: a checkpoint with vocabulary, sizes and
                    task, that every command can read
  result.json       written last; a trial that has it is done
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from etils import epath

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.architecture import STEP, Architecture
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.checkpoint.loading import RESULT_FILE, TRIAL_MODEL
from electra_tf.checkpoint.weights import Weights
from electra_tf.config.corpus import Phase
from electra_tf.finetune import finetuned
from electra_tf.finetune.experiment import Experiment, TaskData
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import Batch
from electra_tf.finetune.task import Task
from electra_tf.model.layers import POLICIES
from electra_tf.model.modeling import recompute_blocks
from electra_tf.training import callbacks, training_utils
from electra_tf.training.training_utils import freed_graphs
from electra_tf.training.updates import checkpoint_variables
from electra_tf.util import console, distribution, files, seeds
from electra_tf.util.errors import UserError
from electra_tf.util.files import lock_directory
from electra_tf.util.flags import (
    CONFIG_FILE,
    check_same_experiment,
    check_same_inputs,
    save_config,
)

_RESTART_SEED_STEP = 1_000_000
_FREE_FIELDS = ("max_restarts", "skip_bad_rows")  # no attempt depends on them

Evaluation = dict[str, Any]
"""The "step" of an update, and what `Experiment.evaluate` returned after it."""


class Evaluations:
    """Evaluations of a trial by step: the best, and when to stop."""

    def __init__(self, experiment: Experiment, path: pathlib.Path) -> None:
        self._experiment = experiment
        self._path = path
        self._all: list[Evaluation] = []

    def read(self, step: int) -> None:
        """Reads the evaluations up to the step where the trial stands."""
        if self._path.exists():
            stored = files.read_json(self._path)
            self._all = [e for e in stored if e["step"] <= step]

    def write(self) -> None:
        """Writes the file."""
        files.write_json(self._path, self._all)

    def has(self, step: int) -> bool:
        """Returns whether a step was evaluated."""
        return any(evaluation["step"] == step for evaluation in self._all)

    def add(self, evaluation: Evaluation) -> None:
        """Adds the newest evaluation."""
        self._all.append(evaluation)

    @property
    def last(self) -> Evaluation | None:
        """The newest evaluation; None if there is none."""
        return self._all[-1] if self._all else None

    @property
    def chosen(self) -> Evaluation:
        """The evaluation whose weights the trial ends with."""
        if self._experiment.config.training.checkpoint == "last":
            return self._all[-1]
        rank = self._experiment.rank
        return max(self._all, key=lambda x: rank(x["metrics"]))

    @property
    def patience_is_over(self) -> bool:
        """Whether `--early_stopping` evaluations had no better score."""
        patience = self._experiment.config.training.early_stopping
        if not (patience and self._all):
            return False
        scores = [self._experiment.score(e["metrics"]) for e in self._all]
        return len(scores) - 1 - int(np.argmax(scores)) >= patience


class Trial:
    """A training from one seed."""

    def __init__(
        self, experiment: Experiment, number: int, restart: int
    ) -> None:
        self.experiment = experiment
        self.config = config = experiment.config
        self.number = number
        self.restart = restart
        self.directory = pathlib.Path(config.trial_dir(number, restart))
        base = config.training.seed + number - 1
        self.seed = base + restart * _RESTART_SEED_STEP
        path = self.directory / "evaluations.json"
        self._evaluations = Evaluations(experiment, path)

    @property
    def result_path(self) -> pathlib.Path:
        """The file that a trial which is done has."""
        return self.directory / RESULT_FILE

    def check_shares(self) -> None:
        """Checks that each task gets an update, unless the trial is done."""
        if not self.result_path.exists():
            self.experiment.check_shares(self.seed)

    @freed_graphs()
    def run(self) -> dict[str, Any]:
        """Trains to the end, resuming from the last checkpoint."""
        self.check_shares()
        epath.Path(self.directory).mkdir(parents=True, exist_ok=True)
        with self._locked():
            if self.result_path.exists():
                result = files.read_json(self.result_path)
                splits = {x.title for x in self.experiment.dev_splits}
                missing = splits - result["metrics"].keys()
                if not missing:
                    return result
                result |= self.experiment.evaluate(self.model())
            else:
                result = self._train()
            if self._is_chief:
                files.write_json(self.result_path, result)
            return result

    def model(self) -> FinetuningModel:
        """Makes the model of the chosen weights, for this process alone."""
        model = self._make_model(tf.distribute.get_strategy())
        store = Checkpoints(self._model_dir, _weights_of(model))
        if store.restore_latest() is None:
            raise UserError(f"{self._model_dir} holds no checkpoint.")
        return model

    @property
    def description(self) -> finetuned.Description:
        """The description of the chosen weights."""
        return finetuned.read_description(self._model_dir)

    @property
    def _model_dir(self) -> pathlib.Path:
        return self.directory / TRIAL_MODEL

    @property
    def _is_chief(self) -> bool:
        return distribution.is_chief(self.experiment.strategy)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Locks the directory; checks configuration, inputs and tasks."""
        start = self.config.training.init_checkpoint
        start = start or self.config.run.model_dir
        way_out = f"give another --model_name, with --init_checkpoint={start}"
        lock = lock_directory(self.directory, "lock")
        with lock if self._is_chief else contextlib.nullcontext():
            path = self.directory / CONFIG_FILE
            if path.exists():
                check_same_experiment(
                    path,
                    self.config,
                    free_fields=_FREE_FIELDS,
                )
            elif self._is_chief:
                save_config(path, self.config)
            check_same_inputs(
                self.directory, self.experiment.digests, write=self._is_chief
            )
            finetuned.check_same_meaning(
                self._model_dir,
                [data.task for data in self.experiment.tasks],
                way_out=way_out,
            )
            yield

    def _make_model(self, strategy: tf.distribute.Strategy) -> FinetuningModel:
        experiment = self.experiment
        with seeds.seed_initializers(self.seed), strategy.scope():
            encoder = loading.make(
                experiment.weights, POLICIES[self.config.training.precision]
            ).encoder
            size = encoder.config.hidden_size
            tasks = [data.task for data in experiment.tasks]
            heads = [task.head().build_for(size) for task in tasks]
            model = FinetuningModel(
                self.config,
                encoder,
                heads,
                seed=self.seed,
                num_train_steps=experiment.num_train_steps,
            )
            model.compile(optimizer=model.make_optimizer())
        runtime = self.config.runtime
        compiles = distribution.compiles_updates(runtime.jit_compile)
        model.jit_compile_step = compiles
        if runtime.recompute:
            recompute_blocks(model)
        return model

    def _train(self) -> dict[str, Any]:
        experiment, runtime = self.experiment, self.config.runtime
        model = self._make_model(experiment.strategy)
        store = Checkpoints(
            self.directory, checkpoint_variables(model), keep_max=1
        )
        best = self._open_best(model)
        step = store.restore_latest() or 0
        workers = distribution.Workers(experiment.strategy)
        if workers.count > 1:
            workers.check_same_values(training_utils.weight_digests(store))
        self._evaluations.read(step)

        def save(step: int) -> None:
            (store.save if self._is_chief else store.check)(step)
            self._evaluate(model, step, best)

        self._evaluate(model, step, best)
        if not model.stop_training:
            training_utils.train(
                model,
                self._batches,
                training_utils.Schedule(
                    num_train_steps=experiment.num_train_steps,
                    iterations_per_loop=runtime.iterations_per_loop,
                    save_checkpoints_steps=runtime.save_checkpoints_steps,
                    milestones=frozenset(experiment.evaluation_steps),
                ),
                strategy=experiment.strategy,
                save=save,
                callbacks=self._callbacks(step) if self._is_chief else (),
            )
        return self._result(model, best)

    def _open_best(self, model: FinetuningModel) -> Checkpoints:
        """Opens the checkpoint of the chosen weights, and describes it."""
        directory = self._model_dir
        variables = _weights_of(model)
        if self._is_chief:
            directory.mkdir(exist_ok=True)
            weights = self.experiment.weights
            tasks = [data.task for data in self.experiment.tasks]
            described = dataclasses.replace(
                weights,
                origin=str(directory),
                arrays={},
                architecture=Architecture(encoder=weights.architecture.encoder),
                max_seq_length=_row_length(weights, tasks),
                labels=tasks[0].labels if len(tasks) == 1 else (),
                value_range=(),  # in the description of the tasks
            )
            loading.describe(directory, described)
            finetuned.write_description(directory, tasks)
        return Checkpoints(directory, variables, keep_max=1)

    def _evaluate(
        self, model: FinetuningModel, step: int, best: Checkpoints
    ) -> None:
        """Evaluates once if an evaluation is due; saves the best weights."""
        evaluations, steps = self._evaluations, self.experiment.evaluation_steps
        is_due = step in steps and not evaluations.has(step)
        if is_due and self.config.run.do_eval:
            evaluation = {"step": step, **self.experiment.evaluate(model)}
            evaluations.add(evaluation)
            if self._is_chief:
                if evaluations.chosen is evaluation:
                    best.save(step)
                evaluations.write()
                console.say(self._log_line(evaluation))
        model.stop_training = evaluations.patience_is_over

    def _result(
        self, model: FinetuningModel, best: Checkpoints
    ) -> dict[str, Any]:
        result = {
            "trial": self.number,
            "restarts": self.restart,
            "directory": self.directory.name,
            "seed": self.seed,
            "num_steps": int(model.optimizer.iterations.numpy()),
        }
        takes_last = self.config.training.checkpoint == "last"
        last = self._evaluations.last
        if not last or (takes_last and last["step"] < result["num_steps"]):
            if self._is_chief:
                best.save(result["num_steps"])
            return {**result, "step": result["num_steps"], "metrics": {}}
        chosen = self._evaluations.chosen
        thresholds = {
            data.task.name: threshold
            for data in self.experiment.tasks
            if (
                threshold := data.task.best_threshold(
                    chosen["metrics"][data.dev[0].title]
                )
            )
            is not None
        }
        if thresholds and self._is_chief:
            tasks = [data.task for data in self.experiment.tasks]
            finetuned.write_description(self._model_dir, tasks, thresholds)
        return {**result, **chosen, "last_metrics": last["metrics"]}

    def _log_line(self, evaluation: Mapping[str, Any]) -> str:
        """Returns the log line of an evaluation."""
        texts = [
            f"{split} " + "  ".join(f"{k} {v:.2f}" for k, v in values.items())
            for split, values in evaluation["metrics"].items()
        ]
        step, last = evaluation["step"], self.experiment.num_train_steps
        where = f"Trial {self.number}, step {step:,} of {last:,}"
        return f"{where}: {'; '.join(texts)}"

    def _batches(self, step: int) -> training_utils.Batches:
        """Makes iterators over each replica's batches, from a step on."""
        schedule = self.experiment.task_schedule(self.seed)
        lengths = self.experiment.lengths(self.seed)
        kinds, order = np.unique(
            np.stack([schedule, lengths]), axis=1, return_inverse=True
        )
        iterators = []
        for number, length in kinds.T:
            mine = lengths[schedule == number] == length
            mine[: (schedule[:step] == number).sum()] = False
            data = self.experiment.tasks[number]
            iterators.append(
                self._task_batches(data, np.flatnonzero(mine), int(length))
            )
        if len(iterators) == 1:
            return iterators[0]
        rest = iter(order.reshape(-1)[step:])
        return training_utils.InterleavedBatches(tuple(iterators), rest)

    def _task_batches(
        self, data: TaskData, steps: np.ndarray, length: int
    ) -> Iterator:
        """Returns an iterator over each replica's rows of some batches."""

        def name(batch: Batch) -> dict[str, Batch]:
            return {data.task.name: batch}

        def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
            workers = context.num_input_pipelines
            return data.train.training_dataset(
                steps=steps,
                length=length,
                batch_size=self.config.training.train_batch_size,
                seed=self.seed,
                group_by_length=self.config.training.group_by_length,
                worker=context.input_pipeline_id,
                num_workers=workers,
                replicas_per_worker=context.num_replicas_in_sync // workers,
            ).map(name)

        strategy = self.experiment.strategy
        return iter(strategy.distribute_datasets_from_function(make))

    def _callbacks(self, step: int) -> list[keras.callbacks.Callback]:
        experiment = self.experiment
        lengths = experiment.lengths(self.seed)
        phase = Phase(
            first_step=0,
            end_step=experiment.num_train_steps,
            batch_size=self.config.training.train_batch_size,
            max_seq_length=int(lengths.max()),
            row_length=float(lengths.mean()),
        )
        made = [
            callbacks.JsonLog(
                self.directory / callbacks.METRICS_FILE,
                first_step=step,
                phases=(phase,),
            ),
            callbacks.ProgressBar((phase,), short_names={"loss": "loss"}),
        ]
        if self.config.runtime.tensorboard:
            made.append(callbacks.TensorBoardLog(self.directory))
        return made


def _row_length(weights: Weights, tasks: Sequence[Task]) -> int:
    """Returns the tokens of the longest rows in training; 0 if not known."""
    longest = max(task.max_seq_length for task in tasks)
    return weights.max_seq_length and max(weights.max_seq_length, longest)


def _weights_of(model: FinetuningModel) -> dict[str, tf.Variable]:
    """Returns the weights and the step, under the original's names."""
    weights = {v.path: v.value for v in model.trainable_variables}
    return {STEP: model.optimizer.iterations.value, **weights}
