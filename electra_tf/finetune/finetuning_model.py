"""An encoder with the heads of tasks, and its updates."""

import functools
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.preprocessing import Batch, Features
from electra_tf.finetune.task import Head
from electra_tf.model import optimization, schedules, tensor_ops
from electra_tf.model.losses import LossTerm
from electra_tf.model.modeling import BertModel, EncoderOutput
from electra_tf.training.updates import Metrics, UpdatedModel
from electra_tf.util import distribution, seeds

_ENCODER_DROPOUT = 0
_HEAD_DROPOUT = 1

TaskBatch = Mapping[str, Batch]
"""One entry: name of a task -> a batch of its rows."""


class FinetuningModel(UpdatedModel):
    """An encoder with a head for each task, to train."""

    config: FinetuningConfig

    def __init__(
        self,
        config: FinetuningConfig,
        encoder: BertModel,
        heads: Sequence[Head],
        *,
        seed: int,
    ) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        size = encoder.config.hidden_size
        self.heads = {head.name: head.build_for(size) for head in heads}
        self.seed = seed
        self.loss_weights = {f"{name}_loss": 1.0 for name in self.heads}
        self._functions: dict[str, Callable[[Batch], dict]] = {}

    def make_optimizer(
        self, num_train_steps: int
    ) -> optimization.AdamWeightDecayOptimizer:
        """Makes the optimizer of the configuration, with its slots built."""
        config, sizes = self.config.optimizer, self.encoder.config
        rates = config.rates(sizes.hidden_size)
        optimizer = optimization.AdamWeightDecayOptimizer(
            schedules.WarmupPolynomialDecay(
                rates.learning_rate,
                num_train_steps,
                num_train_steps * config.warmup_proportion,
            ),
            config.weight_decay_rate,
            rates=optimization.layerwise_rates(
                [variable.path for variable in self.trainable_variables],
                rates.layerwise_lr_decay,
                sizes.num_hidden_layers,
                original="lr_layer_decays" in self.config.original_behaviour,
            ),
        )
        optimizer.build(self.trainable_variables)
        return optimizer

    def update(self, inputs: TaskBatch) -> Metrics:
        """Does one update; see `update_with_keys`."""
        ((_, batch),) = inputs.items()
        num_rows = tensor_ops.shape_of(batch["input_ids"])[0]
        keys = seeds.batch_keys(self.seed, self.optimizer.iterations, num_rows)
        return self.update_with_keys(inputs, keys=keys)

    def variables_of(self, inputs: TaskBatch) -> list[keras.Variable]:
        """Returns the variables of the encoder and of the batch's own head."""
        (task,) = inputs
        head = self.heads[task].trainable_variables
        return [*self.encoder.trainable_variables, *head]

    def compute_losses(
        self, inputs: TaskBatch, *, keys: tf.Tensor, training: bool
    ) -> Metrics:
        ((task, batch),) = inputs.items()
        outputs = self.outputs(task, batch, keys if training else None)
        losses = self.heads[task].losses(outputs, batch)
        size = tf.cast(tf.shape(losses)[0], tf.float32)
        # All updates must return the same metrics, whatever their task.
        zero = tf.constant(0.0)
        metrics = {name: LossTerm(zero, zero) for name in self.loss_weights}
        metrics[f"{task}_loss"] = LossTerm(tf.reduce_sum(losses), size)
        return metrics

    def loss_denominators(
        self, inputs: TaskBatch, *, keys: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns the divisor of the loss, 1: it is a sum over the batch."""
        del inputs, keys
        replica = tf.distribute.get_replica_context()
        size = 1.0 / replica.num_replicas_in_sync
        return {name: tf.constant(size) for name in self.loss_weights}

    def states(self, batch: Batch, keys: tf.Tensor | None) -> EncoderOutput:
        """Runs the encoder; keys [B] are of its dropout."""
        return self.encoder(
            batch["input_ids"],
            batch["input_mask"],
            batch["segment_ids"],
            seeds.fold_in(keys, _ENCODER_DROPOUT),
        )

    def outputs(
        self, task: str, batch: Batch, keys: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Runs encoder and head."""
        states = self.states(batch, keys)
        keys = seeds.fold_in(keys, _HEAD_DROPOUT)
        return self.heads[task](states, batch, keys)

    def outputs_of(
        self, task: str, features: Features, batch_size: int
    ) -> dict[str, np.ndarray]:
        """Computes the outputs of all rows of a split, without dropout."""
        order, parts = [], []
        batches = features.batches(
            batch_size,
            multiple=distribution.num_local_replicas(self.distribute_strategy),
            uses_buckets=self.jit_compile_step,
        )
        for indices, batch in batches:
            outputs = self._function(task, batch)(batch)
            parts.append({name: x.numpy() for name, x in outputs.items()})
            order.append(indices)
        _, first = np.unique(np.concatenate(order), return_index=True)
        return {name: _joined(parts, name)[first] for name in parts[0]}

    def _function(
        self, task: str, batch: Batch
    ) -> Callable[[Batch], dict[str, tf.Tensor]]:
        """Returns a graph function of a task's outputs, for any batch shape."""
        if task in self._functions:
            return self._functions[task]
        strategy = self.distribute_strategy
        count = distribution.num_local_replicas(strategy)
        compute = functools.partial(self._outputs_and_losses, task)
        if self.jit_compile_step:  # one replica's work, as in an update
            compute = tf.function(compute, jit_compile=True, autograph=False)

        def of_replica(batch: Batch) -> dict[str, tf.Tensor]:
            replica = tf.distribute.get_replica_context()
            size = tf.shape(batch["input_ids"])[0] // count
            start = replica.replica_id_in_sync_group % count * size
            mine = slice(start, start + size)
            return compute({name: x[mine] for name, x in batch.items()})

        def of_batch(batch: Batch) -> dict[str, tf.Tensor]:
            outputs = strategy.run(of_replica, args=(batch,))
            parts = strategy.experimental_local_results
            return {name: tf.concat(parts(x), 0) for name, x in outputs.items()}

        signature = {
            name: tf.TensorSpec([None] * x.shape.rank, x.dtype)
            for name, x in batch.items()
        }
        self._functions[task] = tf.function(
            of_batch, input_signature=[signature], autograph=False
        )
        return self._functions[task]

    def _outputs_and_losses(
        self, task: str, batch: Batch
    ) -> dict[str, tf.Tensor]:
        head, outputs = self.heads[task], self.outputs(task, batch)
        losses = head.losses(outputs, batch)
        scored = {k: x for k, x in outputs.items() if k not in head.UNSCORED}
        return {**scored, "loss": losses, "eid": batch["eid"]}


def _joined(parts: Sequence[Mapping[str, np.ndarray]], name: str) -> np.ndarray:
    """Joins batches, padding their sequences to the longest."""
    arrays = [part[name] for part in parts]
    if arrays[0].ndim > 1:
        longest = max(x.shape[1] for x in arrays)
        rest = [(0, 0)] * (arrays[0].ndim - 2)
        sizes = [(0, longest - x.shape[1]) for x in arrays]
        pairs = zip(arrays, sizes, strict=True)
        arrays = [np.pad(x, [(0, 0), size, *rest]) for x, size in pairs]
    return np.concatenate(arrays)
