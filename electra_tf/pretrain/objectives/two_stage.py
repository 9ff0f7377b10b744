"""Two stages: a generator is trained, then a discriminator on its samples.

    updates before n:  loss = gen_weight * mean over masked slots of
                              -log p_G(x_t | masked x)
    from n on:         loss = disc_weight * mean over real tokens of
                              BCE(D(corrupted x)_t, y_t)

with n half of all updates. Right before update n the discriminator's encoder
becomes a copy of the generator's: both must have the same shape. Without the
copy the paper's discriminators at times never learned more than the majority
class. Each stage has a learning rate of its own, with warm-up and
decay to 0. Variables that a stage does not train stay bit-identical: they get
no gradient, and a learning rate of 0 also suppresses momentum and weight decay.
The frozen generator samples without dropout; its loss is still reported, and
still counted in `loss`.

Everything depends on the number of updates alone: a run can be stopped and
resumed in either stage, or between them. Evaluation uses the second stage.

Differs: the paper trains both stages for n updates; here the second gets the
rest of `num_train_steps`. The paper does not state the learning rate schedule.

Source: paper section 3.2 ("Training Algorithms").
"""

import dataclasses
import functools

import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import schedules
from electra_tf.pretrain.flops import Pass, Sizes
from electra_tf.pretrain.metrics import ForwardPass, Loss, discriminator_metrics
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import Metrics, Rate
from electra_tf.pretrain.random_keys import RandomKeys, step_of
from electra_tf.util.errors import UserError

_GENERATOR = ("generator/", "generator_predictions/")


class TwoStage(Electra):
    """Trains a generator first and a discriminator after it."""

    generator_types = ("transformer",)
    can_freeze = False

    def declare_main_losses(self) -> dict[str, Loss]:
        """Returns the loss of the verdicts, 0 in the first stage."""
        loss = super().declare_main_losses()["disc_loss"]
        return {"disc_loss": loss._replace(chance=0.0)}

    @classmethod
    def generator_steps(cls, config: PretrainingConfig) -> int:
        return config.training.num_train_steps // 2

    @classmethod
    def passes(cls, sizes: Sizes) -> dict[str, Pass]:
        passes = super().passes(sizes)
        generator = dataclasses.replace(passes["generator"], is_trained=False)
        return passes | {"generator": generator}

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        super().check(config)
        model = config.model
        if model.generator_sharing != "none":
            raise UserError(
                "Weights shared with a frozen generator could not be trained: "
                "objective=two_stage needs --generator_sharing=none."
            )
        if config.objective.init_discriminator_from_generator and (
            model.generator(1) != model.discriminator(1)
        ):
            raise UserError(
                "The discriminator can start only from a generator of its "
                f"shape: {model.discriminator(1)}, not {model.generator(1)}."
            )

    def learning_rate(self) -> Rate:
        """Returns one schedule for each stage, `switch_step` between them."""
        num_steps = self.config.training.num_train_steps
        first = self.schedule(self.switch_step)
        second = self.schedule(num_steps - self.switch_step)
        return schedules.TwoSchedules(first, second, self.switch_step)

    def learning_rates(self) -> dict[str, float | Rate]:
        """Returns a rate for each variable, which is 0 in the other stage."""
        rates = super().learning_rates()
        # One object a rate: the optimizer groups variables by it.
        gate = functools.cache(
            functools.partial(schedules.Gate, self.switch_step)
        )
        return {
            v.path: gate(
                v.path.startswith(_GENERATOR), rate=rates.get(v.path, 1.0)
            )
            for v in self.trainable_variables
        }

    def update_with_keys(self, inputs: Inputs, *, keys: RandomKeys) -> Metrics:
        if self.config.objective.init_discriminator_from_generator:
            is_due = tf.equal(self.optimizer.iterations.value, self.switch_step)
            tf.distribute.get_replica_context().merge_call(
                self._copy_generator, args=(is_due,)
            )
        return super().update_with_keys(inputs, keys=keys)

    def _copy_generator(
        self, strategy: tf.distribute.Strategy, is_due: tf.Tensor
    ) -> None:
        """Copies the generator's encoder to the discriminator, if it is due."""

        def assign(
            variable: tf.Variable, source: tf.Tensor, is_due: tf.Tensor
        ) -> None:
            def copy() -> tf.Tensor:
                variable.assign(source)
                return is_due

            tf.cond(is_due, copy, lambda: is_due)

        sources = {v.path: v.value for v in self.generator.weights}
        for variable in self.electra.weights:
            path = "generator" + variable.path.removeprefix("electra")
            strategy.extended.update(
                variable.value,
                assign,
                args=(sources[path], is_due),
                group=False,
            )

    def corrupt(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        """Replaces masked tokens by samples, without gradient or dropout."""
        corrupted = super().corrupt(inputs, keys=keys, training=False)
        return corrupted.extended(
            mlm_logits=tf.stop_gradient(corrupted.mlm_logits)
        )

    def compute_losses(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> Metrics:
        num_steps = self.config.training.num_train_steps
        step = tf.reduce_max(step_of(keys, num_steps))
        whole = super().compute_losses
        return tf.cond(
            step < self.switch_step,
            lambda: self._first_losses(inputs, keys, training),
            lambda: whole(inputs, keys=keys, training=training),
        )

    def _first_losses(
        self, inputs: Inputs, keys: RandomKeys, training: bool
    ) -> Metrics:
        """Computes the generator's metrics; the discriminator's weigh 0."""
        corrupted = super().corrupt(inputs, keys=keys, training=training)
        nothing = tf.zeros(tf.shape(inputs.input_ids))
        return {
            **self._generator_metrics(corrupted),
            **discriminator_metrics(
                nothing, corrupted.fake.is_fake_tokens, nothing
            ),
        }
