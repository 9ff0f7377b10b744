"""Pre-training as a Keras model: compile, fit, evaluate, predict, save."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import keras
import tensorflow as tf

from electra_tf.checkpoint import loading, weights
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data import vocabularies
from electra_tf.model import text_reader
from electra_tf.model.layers import dtype_scope
from electra_tf.model.networks import (
    Batch,
    EncoderWithHead,
    complete_ids,
)
from electra_tf.model.optimization import AdamWeightDecayOptimizer
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import evaluation, export, initialization, texts
from electra_tf.pretrain import run as pretraining_run
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.texts import Data
from electra_tf.training import training_utils
from electra_tf.training.callbacks import EpochMeans
from electra_tf.util import distribution
from electra_tf.util.errors import UserError, advise
from electra_tf.util.flags import build, flatten

_OF_APPLY = (  # options that only the optimizer's `apply` heeds
    *("clipnorm", "clipvalue", "global_clipnorm", "use_ema"),
    *("loss_scale_factor", "gradient_accumulation_steps"),
)


@keras.saving.register_keras_serializable("electra_tf")
class ElectraPretrainer(keras.Model):
    """Trains a generator and a discriminator, or any other objective.

    Example:
      pretrainer = electra_tf.ElectraPretrainer(
          {"max_seq_length": 64, "num_train_steps": 1000}, "vocab.txt"
      )
      pretrainer.compile()
      pretrainer.fit(texts, epochs=3, validation_data=held_out_texts)
      discriminator = pretrainer.extract("discriminator")

    An update has the same bits as in `run_pretraining`. The learning rate
    rises and falls once in `num_train_steps` updates, or once in each `fit` if
    `config` is a dict without `num_train_steps`. The configuration sets the
    precision, not Keras' global policy. If the model is made in the scope of a
    `tf.distribute.MirroredStrategy`, replicas share each batch.

    Differs from `run_pretraining`: no resume within an epoch, one worker.

    Args:
      config: a `PretrainingConfig`, or flag of `run_pretraining` -> value.
      vocabulary: vocabulary of the texts, or its path. Default: the
        configuration's `vocab_file`.
      name: name of the model.
      reads_checkpoints: whether training starts from the configuration's
        `init_checkpoint` and `generator_checkpoint`, if any.

    Call arguments:
      inputs: a dict of ids, or texts; see `EncoderWithHead`.

    Returns:
      Outputs of the main network as exported, see `pretrain/export.py`.

    Attributes:
      objective: the `PretrainingModel` with the networks and losses.

    Raises:
      UserError: if the configuration or a checkpoint does not fit.
    """

    def __init__(
        self,
        config: PretrainingConfig | Mapping[str, Any],
        vocabulary: Vocabulary | str | os.PathLike[str] | None = None,
        *,
        name: str | None = None,
        reads_checkpoints: bool = True,
    ) -> None:
        super().__init__(name=name, autocast=False, dtype="float32")
        self.supports_jit = False  # XLA does not support strings
        self._fits_schedule = False
        if isinstance(config, Mapping):
            self._fits_schedule = "num_train_steps" not in config
            no_files = {"data_dir": ".", "model_name": "keras"}
            config = PretrainingConfig.from_flags({**no_files, **config})
        texts.check(config.corpus)
        self.config = config
        if not isinstance(vocabulary, Vocabulary):
            path = os.fspath(vocabulary or config.vocab_file)
            vocabulary = vocabularies.open_vocabulary(config.corpus, path)
        strategy = tf.distribute.get_strategy()
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            raise UserError("Several workers need electra_tf.run_pretraining.")
        with dtype_scope("float32"):
            self.objective = pretraining_run.make_model(
                config, vocabulary, strategy
            )
        if reads_checkpoints:
            initialization.assign_initial_weights(
                self.objective,
                initialization.read_initial_weights(config, vocabulary),
            )
        self._network = next(iter(export.networks_of(self.objective).values()))
        self._has_own_optimizer = self._is_fitted = False
        self._epoch = EpochMeans(self.objective.loss_weights)
        self._evaluation_step = evaluation.make_step(self.objective)
        self.built = True

    def compile(
        self,
        optimizer: AdamWeightDecayOptimizer | None = None,
        *,
        run_eagerly: bool = False,
    ) -> None:
        """Sets the optimizer.

        Losses and metrics are the objective's; XLA is the configuration's
        `jit_compile`.

        Args:
          optimizer: optimizer, to which the objective's `rates` are added.
            Default: the configuration's, with its schedule; new after `fit` or
            another optimizer, else with slots and step of a checkpoint or file.
          run_eagerly: whether updates run without a graph, to debug them.

        Raises:
          UserError: if the optimizer belongs to another model or has options
            that an update would ignore, or if all weights are frozen.
        """
        variables = self.objective.trainable_variables
        if not variables:
            raise UserError("All weights are frozen.")
        is_used = self._has_own_optimizer or self._is_fitted
        self._has_own_optimizer = optimizer is not None
        self._is_fitted = False
        if optimizer is None:
            optimizer = self.objective.optimizer
            if is_used or not optimizer.can_update(variables):
                with self.distribute_strategy.scope():
                    optimizer = self.objective.make_optimizer()
        self._check_optimizer(optimizer)
        optimizer.rates |= self.objective.learning_rates()
        optimizer.build(variables)
        self.objective.compile(optimizer=optimizer)
        super().compile(
            optimizer=optimizer, run_eagerly=run_eagerly, jit_compile=False
        )

    def _check_optimizer(self, optimizer: AdamWeightDecayOptimizer) -> None:
        """Raises if an update would ignore options or lack variables."""
        ignored = [name for name in _OF_APPLY if getattr(optimizer, name)]
        if ignored:
            raise UserError(f"An update ignores {ignored} of the optimizer.")
        if not optimizer.can_update(self.objective.trainable_variables):
            raise UserError(
                f"{optimizer.name} was built for other variables: make a new "
                "one, and compile after weights are frozen or unfrozen."
            )

    def fit(
        self,
        x: Data,
        *,
        validation_data: Data | None = None,
        batch_size: int | None = None,
        epochs: int = 1,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        shuffle: bool = True,
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
        **arguments: Any,  # noqa: ANN401 (Keras')
    ) -> keras.callbacks.History:
        """Trains the networks.

        Args:
          x: documents, whose lines are sentences; or rows, a dict of ids
            [rows, L]; or a `tf.data.Dataset` of batches of strings or ids,
            whose batches stay as they are.
          validation_data: data to evaluate after each epoch, as `x`.
          batch_size: B, if `x` is not a dataset. Default: `train_batch_size`.
          epochs: number of the last epoch, counted from 1.
          initial_epoch: number of the epoch before the first.
          steps_per_epoch: batches in an epoch. Default: all of `x`.
          shuffle: whether each epoch has a new order of rows; a dataset keeps
            its own.
          callbacks: Keras callbacks. Logs of an epoch are means over its
            updates.
          **arguments: `validation_freq`, `validation_steps` and `verbose` of
            `keras.Model.fit`.

        Raises:
          UserError: if weights were frozen or unfrozen after `compile`, or if
            a batch cannot be divided into replicas, micro-batches and groups
            of rows that stay together.
        """
        self._assert_compile_called("fit")
        self._check_optimizer(self.optimizer)
        training = self.config.training
        step = int(self.optimizer.iterations.numpy())
        data = self._batches(
            x,
            batch_size or training.train_batch_size,
            seed=training.seed + step if shuffle else None,
            drop_remainder=True,
        )
        num_parts = self.config.runtime.gradient_accumulation_steps
        group_size = self.objective.batch_group_size(self.config)
        if num_rows := data.element_spec.input_ids.shape[0]:
            num_replicas = self.distribute_strategy.num_replicas_in_sync
            distribution.check_division(
                {num_rows}, num_replicas, num_parts, group_size=group_size
            )
        elif num_parts * group_size > 1:
            raise UserError(
                "Batches must be of one size, a multiple of "
                f"{num_parts * group_size}: .batch(n, drop_remainder=True)."
            )
        num_batches = steps_per_epoch or int(data.cardinality())
        if num_batches > 0 and not self._has_own_optimizer:
            self._set_schedule(step, num_batches * (epochs - initial_epoch))
        if validation_data is not None:
            validation_data = self._batches(validation_data)
        self._is_fitted = True
        return super().fit(
            data,
            validation_data=validation_data,
            epochs=epochs,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            shuffle=False,  # the data are shuffled already
            callbacks=[self._epoch, *(callbacks or ())],
            **arguments,
        )

    def _set_schedule(self, step: int, num_updates: int) -> None:
        """Starts the schedule anew, or warns if its length does not fit."""
        end = self.config.training.num_train_steps
        if self._fits_schedule and not self.objective.switch_step:
            self.optimizer.learning_rate = self.objective.schedule(
                num_updates, first_step=step
            )
            self.train_function = None  # traced with the schedule
            end, step = num_updates, 0
        warmup = self.config.optimizer.num_warmup_steps
        if not warmup < step + num_updates <= end:
            advise(
                f"The learning rate rises for num_warmup_steps={warmup:,} "
                f"updates and falls to 0 at num_train_steps={end:,}, but `fit` "
                f"ends at update {step + num_updates:,}."
            )

    def make_train_function(
        self, force: bool = False
    ) -> Callable[[Iterator], dict[str, float]]:
        """Makes the function that `fit` calls: one update of the loop."""
        if self.train_function is not None and not force:
            return self.train_function
        weights = self.objective.loss_weights
        block = training_utils.make_block(
            self.objective,
            self.distribute_strategy,
            run_eagerly=self.run_eagerly,
        )

        def train(iterator: Iterator) -> dict[str, float]:
            step = int(self.optimizer.iterations.numpy())
            sums = block(iterator, 1)
            training_utils.check_finite(sums, step, weights)
            self._epoch.sums.append(sums)
            return training_utils.means([sums], weights)

        self.train_function = train
        return train

    def evaluate(
        self,
        x: Data,
        *,
        batch_size: int | None = None,
        steps: int | None = None,
        **_: Any,  # noqa: ANN401 (those that Keras' `fit` gives)
    ) -> dict[str, float]:
        """Computes the metrics of `run_pretraining` on held-out records.

        Masks and samples are functions of the row number: the same weights
        have the same metrics every time.

        Args:
          x: data, as for `fit`.
          batch_size: B, if `x` is not a dataset. Default: `eval_batch_size`.
          steps: batches to evaluate on. Default: all.

        Returns:
          Metric -> value.

        Raises:
          UserError: if there is no batch.
        """
        data = self._batches(x, batch_size).take(steps or -1)
        return evaluation.evaluate(self.objective, data, self._evaluation_step)

    def predict(
        self,
        x: Data,
        batch_size: int | None = None,
        **arguments: Any,  # noqa: ANN401 (Keras')
    ) -> dict[str, Any]:
        """Computes the outputs of the main network; see the class.

        Args:
          x: data, as for `fit`, but each text is a row.
          batch_size: B, if `x` is not a dataset. Default: `eval_batch_size`.
          **arguments: arguments of `keras.Model.predict`.
        """
        if not isinstance(x, tf.data.Dataset | Mapping):
            size = batch_size or self.config.runtime.eval_batch_size
            x = tf.data.Dataset.from_tensor_slices(x).batch(size)
        data = self._batches(x, batch_size).map(Inputs._asdict)
        return super().predict(data, **arguments)

    def call(
        self, inputs: Batch, training: bool = False
    ) -> dict[str, tf.Tensor]:
        del training  # the outputs have no dropout
        if isinstance(inputs, Mapping):
            return self._network.predict(complete_ids(inputs))
        predict = self._network.predict_for_text or self._network.predict
        return predict(self._network.reader.read(tf.reshape(inputs, [-1])))

    quantize = EncoderWithHead.quantize

    def extract(self, network: str) -> EncoderWithHead:
        """Returns a network as a standalone model.

        Args:
          network: "discriminator", "generator" or "corrector".

        Returns:
          An `ElectraDiscriminator` or `ElectraGenerator` with copies of the
          weights; an `EncoderWithHead` of an encoder without a head.

        Raises:
          UserError: if the objective has no such network.
        """
        arrays = weights.select(export.weights_of(self.objective), network)
        return loading.make(
            weights.without_slots(arrays),
            max_seq_length=self.config.corpus.max_seq_length,
        )

    def export(self, filepath: str) -> list[pathlib.Path]:
        """Writes two SavedModels of each network, see `pretrain/export.py`.

        Args:
          filepath: a directory, which is made if it does not exist.

        Returns:
          The directory of each SavedModel.
        """
        return export.export(self.objective, pathlib.Path(filepath))

    def save_checkpoint(self, directory: str) -> None:
        """Writes a checkpoint that all of electra_tf reads.

        That is `from_checkpoint`, `convert_checkpoint`, `run_finetuning`, and
        `run_pretraining --init_checkpoint`.

        Args:
          directory: a directory that does not exist or is empty.
        """
        loading.write(
            directory, export.weights_of(self.objective), "electra_tf"
        )

    def get_config(self) -> dict[str, Any]:
        vocabulary = text_reader.vocabulary_config(self.objective.vocabulary)
        return {
            # Lists: Keras writes a tuple as a dict and does not restore it.
            "config": json.loads(json.dumps(dataclasses.asdict(self.config))),
            "vocabulary": vocabulary,
            "name": self.name,
            "fits_schedule": self._fits_schedule,
            "frozen": [v.path for v in self.objective.non_trainable_weights],
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        pretrainer = cls(
            build(PretrainingConfig, flatten(config["config"])),
            text_reader.vocabulary_from_config(config["vocabulary"]),
            name=config["name"],
            reads_checkpoints=False,
        )
        pretrainer._fits_schedule = config.get("fits_schedule", False)
        frozen = config.get("frozen", ())
        for variable in pretrainer.objective.weights:
            variable.trainable &= variable.path not in frozen
        return pretrainer

    def get_compile_config(self) -> dict[str, Any] | None:
        if not (self.compiled and self.objective.trainable_variables):
            return None
        optimizer = None
        if self._has_own_optimizer:
            optimizer = keras.saving.serialize_keras_object(self.optimizer)
        return {"optimizer": optimizer}

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))

    def _batches(
        self,
        data: Data,
        batch_size: int | None = None,
        **options: Any,  # noqa: ANN401 (texts.batches')
    ) -> tf.data.Dataset:
        return texts.batches(
            data,
            self.config.corpus,
            export.reader_of(self.objective),
            batch_size=batch_size or self.config.runtime.eval_batch_size,
            **options,
        )
