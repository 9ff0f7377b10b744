"""A fine-tuning run: read encoder and data, train the trials, report.

It reads <data_dir>/finetuning_data/<task> and the pre-trained encoder in
<data_dir>/models/<model_name>, beside which it writes.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from electra_tf.checkpoint import loading
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune import experiment as experiments
from electra_tf.finetune import report, task_builder
from electra_tf.finetune.experiment import Experiment
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.trial import Trial
from electra_tf.training import callbacks, training_utils
from electra_tf.util import console, distribution
from electra_tf.util.errors import UserError
from electra_tf.util.flags import flatten

_SHARED = training_utils.SHARED_FIELDS | {"model_name", "num_trials"}


@distribution.naming_lost_workers()
def run(config: FinetuningConfig) -> dict[str, Any]:
    """Trains, evaluates and predicts with every trial; the chief reports."""
    if config.runtime.tensorboard:
        callbacks.check_tensorboard()
    experiment = prepare(config)
    numbers = range(1, config.run.num_trials + 1)
    trials = [run_trial(experiment, number) for number in numbers]
    is_chief = distribution.is_chief(experiment.strategy)
    content = report.write(experiment, trials) if is_chief else {}
    distribution.barrier(experiment.strategy)  # the chief is the last to end
    return content


def prepare(config: FinetuningConfig) -> Experiment:
    """Reads encoder and data, the same ones on all workers."""
    if config.runtime.deterministic:
        tf.config.experimental.enable_op_determinism()
    strategy = training_utils.join_workers(
        config.runtime, training_utils.shared_settings(config, _SHARED)
    )
    distribution.check_division(
        {config.training.train_batch_size},
        strategy.num_replicas_in_sync,
        config.runtime.gradient_accumulation_steps,
    )

    weights = experiments.read_encoder(config)
    tokenizer = TextTokenizer.of(weights)
    loading.warn_of_assumed_heads(weights)
    resolved, weights = experiments.resolve_defaults(config, weights)
    digests = {"encoder": experiments.digest_of_encoder(weights)}
    data = []
    for name in config.task.task_names:
        task = task_builder.get_task(
            resolved,
            name,
            tokenizer,
            longest=weights.architecture.encoder.max_position_embeddings,
        )
        data.append(experiments.read_task(task, digests))
    distribution.Workers(strategy).check_same_values(digests)
    experiment = Experiment(resolved, tuple(data), weights, strategy, digests)
    if distribution.is_chief(strategy):
        _log(config, experiment)
    return experiment


def _log(config: FinetuningConfig, experiment: Experiment) -> None:
    """Logs the encoder, the settings that it determines, and the rows."""
    console.say(f"Encoder: {experiment.weights.origin}.")
    resolved = experiment.config
    if not experiments.has_questions(config):
        resolved = dataclasses.replace(resolved, qa=config.qa)
    old, new = (flatten(dataclasses.asdict(x)) for x in (config, resolved))
    flags = [f"--{k}={v}" for k, v in new.items() if old[k] != v]
    if flags:
        console.say(f"Defaults set by the encoder: {' '.join(flags)}")
    for task, train, dev, test in experiment.tasks:
        counts = [f"{len(x.examples):,} in {x.name}" for x in (*dev, *test)]
        if train is not None:
            counts.insert(0, f"{train.num_rows:,} rows to train on")
        console.say(f"{task.name}: {', '.join(counts)}.")
        for note in task.bad_rows.notes:
            console.warn(note)
        if config.run.write_test_outputs and not test:
            source = task.source(task.test_splits[0])
            console.warn(f"{task.name} has no test rows: {source}.")


def run_trial(experiment: Experiment, number: int) -> Trial:
    """Runs a trial, and restarts it while it is degenerate."""
    config = experiment.config
    trials: list[Trial] = []
    for restart in range(config.training.max_restarts + 1):
        trial = Trial(experiment, number, restart)
        if not (config.run.do_train or trial.is_done):
            break
        if trials:
            console.warn(
                f"Trial {number} failed: it gives the same answer to every dev "
                "row. It is restarted with another seed."
            )
        trials.append(trial)
        trial.run()
        if not trial.result.get("collapsed"):
            break
    if not trials:
        raise UserError(f"{trial.directory} holds no finished trial.")
    chosen = trials[-1]
    if chosen.result.get("collapsed"):
        chosen = max(trials, key=lambda x: experiment.rank(x.result["metrics"]))
    chosen.result["restarts"] = len(trials) - 1
    return chosen
