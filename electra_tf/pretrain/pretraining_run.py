"""One pre-training run from beginning to end, as the command line starts it."""

import contextlib
import dataclasses
import math
from collections.abc import Sequence

import keras
import tensorflow as tf

from electra_tf.checkpoint import vocabulary_search
from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.config import phases
from electra_tf.config.objectives import get_class
from electra_tf.configure_pretraining import PretrainingConfig, RunConfig
from electra_tf.data import preparation, vocabularies
from electra_tf.data.corpus import DEMO
from electra_tf.data.reading import Records, naming_damaged_file
from electra_tf.model.modeling import recompute_blocks, shift_positions
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import (
    agreement,
    evaluation,
    export,
    health,
    initialization,
    run_checks,
    training_batches,
)
from electra_tf.pretrain.flops import training_flops
from electra_tf.pretrain.initialization import InitialWeights
from electra_tf.pretrain.pretrain_data import BatchSchedule
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.training import callbacks, training_utils
from electra_tf.training.agreement import join_workers
from electra_tf.training.updates import checkpoint_variables
from electra_tf.util import (
    config_files,
    console,
    distribution,
    fingerprints,
    seeds,
    storage,
)
from electra_tf.util.errors import UserError

_DEMO_NOTE = """\
==============================================================================
The text is the English documentation installed with the package (10 MB), which
is --corpus=demo. To train on your own: --corpus='/path/*.txt' --data_dir=DIR
=============================================================================="""
_SHORT_NAMES = {
    "loss": "loss",
    "masked_lm_loss": "mlm",
    "disc_loss": "disc",
    "corrector_loss": "corrector",
    "generator_loss": "gen",
    "selection_loss": "select",
    "contrast_loss": "contrast",
    "sentence_loss": "sentence",
}


@distribution.naming_lost_workers()
def run(
    config: PretrainingConfig,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> None:
    """Prepares the data, trains, evaluates, shows samples and exports."""
    strategy = join_workers(config.runtime, agreement.settings(config))
    run_checks.check(config, strategy)
    is_chief = distribution.is_chief(strategy)
    if is_chief and DEMO in preparation.find_corpus(config):
        console.say(_DEMO_NOTE)
    directory = contextlib.nullcontext()
    if is_chief:
        directory = run_checks.own_directory(config)
    with directory:
        initial_weights = _read_initial_weights(config)
        data = _prepare(config, strategy, initial_weights)
        digests = run_checks.digests_of(config, data.vocabulary, data.train)
        run_checks.check_inputs(config, digests)
        batches = BatchSchedule(config.phases, data.train, config.training.seed)
        model = make_model(config, data.vocabulary, strategy)
        if is_chief:
            console.say(_describe(model, strategy))
        store = _restore(model, initial_weights)
        workers = distribution.Workers(strategy)
        if workers.count > 1:
            workers.check_same_values(agreement.state(data, store))
        if config.run.do_train:
            _train(model, batches, store, strategy, callbacks, digests=digests)
        if config.run.do_eval:
            _evaluate(model, data.held_out, is_chief=is_chief)
        if is_chief:
            _finish(model)
        distribution.barrier(strategy)  # the chief is the last to end


def make_model(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    strategy: tf.distribute.Strategy,
) -> PretrainingModel:
    """Makes the objective's model and its optimizer, initialized by the
    seed."""
    distribution.set_arithmetic(
        tensor_float_32=config.runtime.tensor_float_32,
        deterministic=config.runtime.deterministic,
    )
    with seeds.seed_initializers(config.training.seed), strategy.scope():
        make = get_class(config.objective.objective)
        model = make(config, vocabulary)
        model.compile(optimizer=model.make_optimizer())
    runtime = config.runtime
    model.jit_compile_step = distribution.compiles_updates(runtime.jit_compile)
    if runtime.recompute:
        recompute_blocks(model)
    if config.training.shift_positions:
        shift_positions(model, config.corpus.max_seq_length)
    return model


def load(
    run: RunConfig, checkpoint: str = "", vocab_file: str = ""
) -> PretrainingModel:
    """Makes the model of a run and restores a checkpoint."""
    path = storage.as_path(run.model_dir) / config_files.CONFIG_FILE
    config = config_files.load_config(path, PretrainingConfig)
    corpus = config.corpus
    if vocab_file:
        corpus = dataclasses.replace(corpus, vocab_file=vocab_file)
    config = dataclasses.replace(config, run=run, corpus=corpus)
    model = make_model(
        config,
        _open_vocabulary(config),
        distribution.make_strategy("one"),
    )
    run_checks.check_inputs(config, {"vocabulary": model.vocabulary.sha256})
    store = Checkpoints(run.model_dir, checkpoint_variables(model))
    if checkpoint:
        store.restore(checkpoint)
    elif store.restore_latest() is None:
        raise UserError(
            f"{run.model_dir} must hold a checkpoint. Received: none. Train "
            "first with run_pretraining, or name one with --checkpoint."
        )
    return model


def _open_vocabulary(config: PretrainingConfig) -> Vocabulary:
    """Opens the vocabulary of a run, which may have moved with its data."""
    corpus = config.corpus
    if not storage.exists(config.vocab_file):
        found = vocabulary_search.find(
            storage.as_path(config.run.model_dir), dataclasses.asdict(corpus)
        )
        if found is not None:
            return found.padded(corpus.pad_vocab_to_multiple)
    return vocabularies.open_vocabulary(corpus, config.vocab_file)


def _describe(model: PretrainingModel, strategy: tf.distribute.Strategy) -> str:
    """Describes the number of weights and the devices."""
    trained, frozen = (
        sum(math.prod(v.shape) for v in group)
        for group in (model.trainable_variables, model.non_trainable_weights)
    )
    note = f" and {frozen:,} frozen" if frozen else ""
    return f"Weights: {trained:,}{note}, on {distribution.describe(strategy)}."


def _prepare(
    config: PretrainingConfig,
    strategy: tf.distribute.Strategy,
    initial_weights: InitialWeights,
) -> preparation.Prepared:
    """Builds or opens the data: the chief first, then the other workers."""
    is_chief = distribution.is_chief(strategy)
    if not is_chief:
        distribution.barrier(strategy)
    initial = initial_weights.model
    data = preparation.prepare(
        config, initial_vocabulary=initial and initial.vocabulary
    )
    if is_chief:
        distribution.barrier(strategy)
    return data


def _read_initial_weights(config: PretrainingConfig) -> InitialWeights:
    """Reads the initial weights of a new run, before preparing the data."""
    has_checkpoint = Checkpoints(config.run.model_dir, {}).steps()
    return (
        InitialWeights()
        if has_checkpoint
        else initialization.read_initial_weights(config)
    )


def _restore(
    model: PretrainingModel, initial_weights: InitialWeights
) -> Checkpoints:
    """Restores the newest checkpoint, or assigns the initial weights."""
    config = model.config
    store = Checkpoints(
        config.run.model_dir,
        checkpoint_variables(model),
        keep_max=config.runtime.keep_checkpoint_max,
        milestones=config.milestones,
    )
    step = store.restore_latest()
    if step is not None:
        console.say(f"Restored the checkpoint of step {step:,}.")
    elif any(initial_weights):
        initialization.assign_initial_weights(model, initial_weights)
        store.check_finite(
            "The initial weights",
            "Name another --init_checkpoint or --generator_checkpoint.",
        )
    elif not config.run.do_train:
        raise UserError(
            f"{config.run.model_dir} holds no checkpoint to evaluate or "
            "export. Train first (--do_train), or name another --model_name."
        )
    return store


def _train(
    model: PretrainingModel,
    batches: BatchSchedule,
    store: Checkpoints,
    strategy: tf.distribute.Strategy,
    further_callbacks: Sequence[keras.callbacks.Callback],
    *,
    digests: fingerprints.Digests,
) -> None:
    """Trains to the end, writing checkpoints, logs and progress."""
    config = model.config
    is_chief = distribution.is_chief(strategy)
    if is_chief:
        run_checks.warn_of_warmup(config)
        _save_settings(config, digests)
    with naming_damaged_file(*batches.records.values()):
        training_utils.train(
            model,
            lambda step: training_batches.open_at(
                step, batches, strategy, config.data.shuffle_megabytes
            ),
            _schedule(config, batches),
            strategy=strategy,
            save=store.save if is_chief else store.check,
            callbacks=[
                *(_callbacks(model, batches) if is_chief else ()),
                *further_callbacks,
            ],
            max_skipped=config.runtime.skip_nonfinite_updates,
        )


def _schedule(
    config: PretrainingConfig, batches: BatchSchedule
) -> training_utils.Schedule:
    """Returns where the training loop ends its blocks of updates."""
    return training_utils.Schedule(
        num_train_steps=config.training.num_train_steps,
        iterations_per_loop=config.runtime.iterations_per_loop,
        save_checkpoints_steps=config.runtime.save_checkpoints_steps,
        milestones=config.milestones,
        borders=phases.borders(batches.phases),
    )


def _save_settings(
    config: PretrainingConfig, digests: fingerprints.Digests
) -> None:
    """Saves the configuration and the digests that a resume must find again."""
    path = storage.as_path(config.run.model_dir) / config_files.CONFIG_FILE
    config_files.save_config(path, config)
    run_checks.check_inputs(config, digests, write=True)


def _callbacks(
    model: PretrainingModel, batches: BatchSchedule
) -> list[keras.callbacks.Callback]:
    """Makes the progress bar, logs and health monitor of a run."""
    config = model.config
    model_dir = storage.as_path(config.run.model_dir)
    step = int(model.optimizer.iterations.numpy())
    made: list[keras.callbacks.Callback] = [
        callbacks.TrainingFlops(
            lambda step: training_flops(config, model.vocabulary.size, step)
        ),
        callbacks.JsonLog(
            model_dir / callbacks.METRICS_FILE,
            first_step=step,
            phases=batches.phases,
        ),
        health.HealthMonitor(model),
        callbacks.ProgressBar(batches.phases, short_names=_SHORT_NAMES),
    ]
    if config.runtime.tensorboard:
        made.append(callbacks.TensorBoardLog(model_dir))
    return made


def _evaluate(
    model: PretrainingModel, held_out: Records | None, *, is_chief: bool
) -> None:
    """Evaluates on all workers, and shows samples."""
    if held_out is not None:
        results_dir = storage.as_path(model.config.run.model_dir) / "results"
        with naming_damaged_file(held_out):
            evaluation.report(model, held_out, results_dir)
    elif is_chief:
        console.warn(
            "There are no held-out records: nothing is evaluated. Build the "
            "records with --held_out_fraction, or set --eval_tfrecords."
        )


def _finish(model: PretrainingModel) -> None:
    """Exports the networks, and names the files written."""
    config = model.config
    if config.run.do_export:
        saved_model = storage.as_path(config.run.model_dir) / "saved_model"
        for directory in export.export(model, saved_model):
            console.say(f"Exported {directory}")
    console.say(f"Files written: {config.run.model_dir}")
