"""A pre-training run from beginning to end: data, model, updates, results.

<data_dir>/vocab.txt, <data_dir>/pretrain_tfrecords    built if missing
<data_dir>/models/<model_name>/
    config.json, inputs.json    compared when the run is resumed
    model.ckpt-<step>           weights, slots and step
    metrics.jsonl, results/, saved_model/
"""

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence

import keras
import tensorflow as tf
from etils import epath

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.config.objectives import get_class
from electra_tf.configure_pretraining import PretrainingConfig, RunConfig
from electra_tf.data import preparation
from electra_tf.data.corpus import DEMO
from electra_tf.data.preparation import Prepared
from electra_tf.data.reading import Records, naming_damaged_file
from electra_tf.model.modeling import recompute_blocks, shift_positions
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import evaluation, export, health, initialization
from electra_tf.pretrain.flops import training_flops
from electra_tf.pretrain.initialization import InitialWeights
from electra_tf.pretrain.pretrain_data import BatchSchedule
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.training import callbacks, training_utils
from electra_tf.training.updates import checkpoint_variables
from electra_tf.util import console, distribution, files, seeds
from electra_tf.util.errors import UserError
from electra_tf.util.flags import (
    CONFIG_FILE,
    check_same_experiment,
    check_same_inputs,
    load_config,
    save_config,
    stored_inputs,
)

_DEMO_NOTE = (
    "The text is the English documentation installed with the package (10 MB), "
    "which is --corpus=demo. To train on your own: --corpus='/path/*.txt' "
    "--data_dir=DIR"
)
_DEMO_NEXT = """
Next:
  python -m electra_tf.score --model={model_dir} --show \\
    --text="if the file not exist, an error is raised"
  python -m electra_tf.run_finetuning --data_dir={data_dir} \\
    --model_name={model_name} --task_names=reviews --dev_fraction=0.1 \\
    --task_kind=classification --train_file=reviews.csv \\
    --text_column=review --label_column=stars
  python -m electra_tf.run_pretraining --flagfile=configs/mini.cfg \\
    --corpus='/path/*.txt' --data_dir=DIR"""
_NUM_HASHED_BYTES = 2**14  # of each file of records
_PATH_FIELDS = {  # in which workers may differ, as they may read copies
    "corpus",
    "eval_tfrecords",
    "pretrain_tfrecords",
    "vocab_file",
}


@distribution.naming_lost_workers()
def run(
    config: PretrainingConfig,
    further_callbacks: Sequence[keras.callbacks.Callback] = (),
) -> None:
    """Prepares the data, trains, evaluates, shows samples and exports."""
    settings = shared_settings(config)
    strategy = training_utils.join_workers(config.runtime, settings)
    is_chief = distribution.is_chief(strategy)
    model_dir = epath.Path(config.run.model_dir)
    check(config, strategy)
    if is_chief and DEMO in config.corpus.corpus:
        console.say(_DEMO_NOTE)
    with own_directory(config) if is_chief else contextlib.nullcontext():
        # Initial weights may bring the vocabulary, so they are read first.
        initial_weights = InitialWeights()
        if not Checkpoints(model_dir, {}).steps():
            initial_weights = initialization.read_initial_weights(config)
        data = _prepare(config, strategy, initial_weights)
        digests = {"vocabulary": data.vocabulary.sha256}
        if config.run.do_train:
            digests |= _record_digests(data.train)
        check_same_inputs(model_dir, digests, write=False)

        model = make_model(config, data.vocabulary, strategy)
        if is_chief:
            device = distribution.describe(strategy)
            console.say(f"Weights: {model.count_params():,}, on {device}.")
        store = _restore(model, initial_weights)
        workers = distribution.Workers(strategy)
        if workers.count > 1:
            workers.check_same_values(shared_state(data, store))

        if config.run.do_train:
            if is_chief:
                save_config(model_dir / CONFIG_FILE, config)
                check_same_inputs(model_dir, digests, write=True)
            _train(model, data, store, further_callbacks)
        if config.run.do_eval and data.held_out is not None:
            with naming_damaged_file(data.held_out):
                evaluation.report(model, data.held_out)
        elif config.run.do_eval and is_chief:
            console.warn(
                "There are no held-out records: nothing is evaluated. Build "
                "the records with --held_out_fraction, or set --eval_tfrecords."
            )
        if is_chief:
            _finish(model)
        distribution.barrier(strategy)  # the chief is the last to end


def _finish(model: PretrainingModel) -> None:
    """Exports the model; after the demo, shows how to go on."""
    run, model_dir = model.config.run, model.config.run.model_dir
    if run.do_export:
        target = epath.Path(model_dir) / "saved_model"
        for directory in export.export(model, target):
            console.say(f"Exported {directory}")
    if DEMO in model.config.corpus.corpus:
        console.say(_DEMO_NEXT.format(model_dir=model_dir, **vars(run)))


def check(config: PretrainingConfig, strategy: tf.distribute.Strategy) -> None:
    """Checks the configuration against the objective and the devices."""
    objective = get_class(config.objective.objective)
    objective.check(config)
    group_size = objective.batch_group_size(config)
    distribution.check_division(
        {phase.batch_size for phase in config.phases},
        strategy.num_replicas_in_sync,
        config.runtime.gradient_accumulation_steps,
        group_size=group_size,
    )
    distribution.check_division(
        {config.runtime.eval_batch_size}, 1, 1, group_size=group_size
    )


@contextlib.contextmanager
def own_directory(config: PretrainingConfig) -> Iterator[None]:
    """Locks the model directory and compares the stored configuration."""
    model_dir = epath.Path(config.run.model_dir)
    model_dir.mkdir(parents=True, exist_ok=True)
    with files.lock_directory(model_dir, "lock"):
        if (model_dir / CONFIG_FILE).exists():
            # A vocabulary may have moved if its digest is compared.
            is_known = "vocabulary" in stored_inputs(model_dir)
            check_same_experiment(
                model_dir / CONFIG_FILE,
                config,
                free_fields=["vocab_file"] if is_known else [],
            )
        yield


def _prepare(
    config: PretrainingConfig,
    strategy: tf.distribute.Strategy,
    initial_weights: InitialWeights,
) -> Prepared:
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


def shared_settings(config: PretrainingConfig) -> dict[str, str]:
    """Returns the settings on which all workers must agree, as text."""
    fields = {"num_eval_steps"} | training_utils.SHARED_FIELDS
    values = training_utils.shared_settings(config, fields)
    return {k: v for k, v in values.items() if k not in _PATH_FIELDS}


def shared_state(data: Prepared, store: Checkpoints) -> dict[str, str]:
    """Returns digests of data and weights, on which workers must agree."""
    held_out = data.held_out
    return {
        "vocabulary": f"{data.vocabulary.sha256} {data.vocabulary.counts}",
        **_record_digests(data.train),
        "held-out records": _digest(held_out) if held_out else "none",
        **training_utils.weight_digests(store),
    }


def _record_digests(train: Mapping[int, Records]) -> dict[str, str]:
    return {f"records of {n} tokens": _digest(r) for n, r in train.items()}


def _digest(records: Records) -> str:
    """Returns a digest of the size and the first bytes of each file."""
    digest = hashlib.sha256()
    for file in records.files:
        digest.update(f"{file.num_records} {file.num_bytes}\n".encode())
        with tf.io.gfile.GFile(file.path, "rb") as content:
            digest.update(content.read(_NUM_HASHED_BYTES))
    return digest.hexdigest()


def make_model(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    strategy: tf.distribute.Strategy,
) -> PretrainingModel:
    """Makes the objective's model and its optimizer from the seed."""
    runtime = config.runtime
    if runtime.deterministic:
        tf.config.experimental.enable_op_determinism()
    with seeds.seed_initializers(config.training.seed), strategy.scope():
        model = get_class(config.objective.objective)(config, vocabulary)
        model.compile(optimizer=model.make_optimizer())
    model.jit_compile_step = distribution.compiles_updates(runtime.jit_compile)
    if runtime.recompute:
        recompute_blocks(model)
    if config.training.shift_positions:
        shift_positions(model, config.corpus.max_seq_length)
    return model


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
        store.check_finite("init_checkpoint")
    elif not config.run.do_train:
        raise UserError(f"{config.run.model_dir} holds no checkpoint.")
    return store


def load(
    run: RunConfig, checkpoint: str = "", vocab_file: str = ""
) -> PretrainingModel:
    """Makes the model of a run and restores a checkpoint."""
    model_dir = epath.Path(run.model_dir)
    config = load_config(model_dir / CONFIG_FILE, PretrainingConfig)
    corpus = config.corpus
    if vocab_file:
        corpus = dataclasses.replace(corpus, vocab_file=vocab_file)
    config = dataclasses.replace(config, run=run, corpus=corpus)
    vocabulary = loading.find_vocabulary(model_dir, dataclasses.asdict(corpus))
    if vocabulary is None:
        raise UserError(f"No vocabulary of {model_dir}: set --vocab_file.")
    model = make_model(config, vocabulary, distribution.make_strategy("one"))
    store = Checkpoints(run.model_dir, checkpoint_variables(model))
    if checkpoint:
        store.restore(checkpoint)
    elif store.restore_latest() is None:
        raise UserError(f"{run.model_dir} holds no checkpoint.")
    return model


def _train(
    model: PretrainingModel,
    data: Prepared,
    store: Checkpoints,
    further_callbacks: Sequence[keras.callbacks.Callback],
) -> None:
    """Trains to the end, writing checkpoints, logs and progress."""
    config, strategy = model.config, model.distribute_strategy
    num_steps = config.training.num_train_steps
    warmup = config.optimizer.num_warmup_steps
    if warmup >= num_steps - model.switch_step:
        console.warn(
            f"The learning rate never reaches its peak: {num_steps:,} updates "
            f"with --num_warmup_steps={warmup:,}."
        )
    is_chief = distribution.is_chief(strategy)
    batches = BatchSchedule(config.phases, data.train, config.training.seed)
    schedule = training_utils.Schedule(
        num_train_steps=num_steps,
        iterations_per_loop=config.runtime.iterations_per_loop,
        save_checkpoints_steps=config.runtime.save_checkpoints_steps,
        milestones=config.milestones,
        borders=frozenset(p.end_step for p in batches.phases[:-1]),
    )
    own_callbacks = _callbacks(model, batches) if is_chief else ()
    with naming_damaged_file(*data.train.values()):
        training_utils.train(
            model,
            lambda step: batches.open_at(step, strategy),
            schedule,
            strategy=strategy,
            save=store.save if is_chief else store.check_finite,
            callbacks=[*own_callbacks, *further_callbacks],
        )


def _callbacks(
    model: PretrainingModel, batches: BatchSchedule
) -> list[keras.callbacks.Callback]:
    config = model.config
    model_dir = epath.Path(config.run.model_dir)
    names = {n: n.removesuffix("_loss") for n in ("loss", *model.loss_weights)}
    found: list[keras.callbacks.Callback] = [
        callbacks.TrainingFlops(
            lambda step: training_flops(config, model.vocabulary.size, step)
        ),
        callbacks.JsonLog(
            model_dir / callbacks.METRICS_FILE,
            first_step=int(model.optimizer.iterations.numpy()),
            phases=batches.phases,
        ),
        health.HealthMonitor(model),
        callbacks.ProgressBar(batches.phases, short_names=names),
    ]
    if config.runtime.tensorboard:
        found.append(callbacks.TensorBoardLog(model_dir))
    return found
