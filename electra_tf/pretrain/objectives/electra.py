"""ELECTRA: a generator fills masks, a discriminator finds what it replaced.

    loss = gen_weight * mean over masked slots of -log p_G(x_t | masked x)
         + disc_weight * mean over real tokens of BCE(D(corrupted x)_t, y_t)

with y_t = 1 where the generator's sample differs from the data. A sample that
equals the data counts as real, and no gradient passes through the sample, which
`generators.sample` draws. Two towers read the clean text and
learn from all of it; their loss is

    mean over all tokens but [CLS], [SEP], [MASK] of -log q(x_t | others)

and the loss at the masked slots is a metric. A uniform and a unigram generator
have no weights and no loss. A frozen generator has weights, from another run,
that are not trained; its loss is a metric.

Differs: for a uniform generator the original adds the constant ln V to the
loss.

Source: paper sections 2 and 3.1; Electric's paper, section 3 (two towers); the
original's run_pretraining.py.
"""

import math

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import heads, losses, schedules, tensor_ops
from electra_tf.model.heads import TokenDistribution
from electra_tf.model.modeling import (
    BertModel,
    DisentangledEmbeddings,
    Embeddings,
)
from electra_tf.model.networks import ElectraDiscriminator, ElectraGenerator
from electra_tf.model.two_tower import TwoTowerModel
from electra_tf.pretrain import generators, pretrain_helpers
from electra_tf.pretrain.flops import Pass, Sizes
from electra_tf.pretrain.metrics import (
    FakeData,
    ForwardPass,
    Loss,
    discriminator_metrics,
    softmax_metrics,
)
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.pretraining_model import (
    Metrics,
    PretrainingModel,
    Rate,
)
from electra_tf.pretrain.random_keys import (
    Purpose,
    RandomKeys,
    dropout_keys,
    linear_ramp,
    progress,
    step_of,
)

# Prefixes of the paths of the generator's variables.
_GENERATOR = ("generator", "cloze_predictions", "baseline_predictions")


class Electra(PretrainingModel):
    """Trains a generator and a discriminator jointly."""

    generator_types = ("transformer", "two_tower", "uniform", "unigram")
    can_freeze = True

    def build_networks(self, bert: BertConfig) -> None:
        config, sharing = self.config, self.config.model.generator_sharing
        kind = self.generator_type(config)
        self.has_generator = kind in ("transformer", "two_tower")
        self.has_two_towers = kind == "two_tower"
        self.has_frozen_generator = self.is_frozen(config)
        tables = None
        is_base = self.has_generator and sharing == "gradient_disentangled"
        if is_base:
            self._build_generator(None)
            tables = DisentangledEmbeddings(bert, self.generator.embeddings)
        self.electra = self._encoder(bert, "electra", tables)
        self._build_head(bert)
        if self.has_two_towers:
            self._build_towers()
        elif self.has_generator and not is_base:
            self._build_generator(self.electra)
        if self.has_frozen_generator:
            self.generator.trainable = False
            self.generator_predictions.trainable = False

    def declare_losses(self) -> dict[str, Loss]:
        weight, word = self.config.objective.gen_weight, self.vocabulary.size
        kind, found = self.generator_type(self.config), {}
        if kind == "two_tower":
            found["cloze_loss"] = Loss(weight, math.log(word), "predictable")
        elif kind == "transformer" and not self.is_frozen(self.config):
            found["masked_lm_loss"] = Loss(weight, math.log(word), "masked")
        return self.declare_main_losses() | found

    def declare_main_losses(self) -> dict[str, Loss]:
        """Returns the losses of the heads on the main encoder, by name."""
        weight = self.config.objective.disc_weight
        return {"disc_loss": Loss(weight, math.log(2), over="judged")}

    @classmethod
    def passes(cls, sizes: Sizes) -> dict[str, Pass]:
        detection = sizes.main(num_decisions=sizes.num_tokens)
        return {**cls.generator_passes(sizes), "discriminator": detection}

    def _build_head(self, bert: BertConfig) -> None:
        self.discriminator_model = ElectraDiscriminator(
            bert, encoder=self.electra, seed=None
        )
        self.discriminator_predictions = self.discriminator_model.head

    def _encoder(
        self, bert: BertConfig, name: str, tables: Embeddings | None
    ) -> BertModel:
        """Makes an encoder, by default with tables of its own."""
        is_packed = self.config.corpus.is_packed
        encoder = BertModel(
            bert, name, tables, is_packed=is_packed, dtype=self.policy
        )
        encoder.build((None, None))
        return encoder

    def _build_generator(self, main: BertModel | None) -> None:
        """Makes the generator, with the sharing of `generator_sharing`."""
        sharing, tables = self.config.model.generator_sharing, None
        bert = self.config.model.generator(self.vocabulary.size)
        if sharing == "embeddings":
            tables = main.embeddings
        elif sharing.startswith("token"):
            shared = [main.embeddings.word_embeddings]
            if sharing == "token_and_position_embeddings":
                shared.append(main.embeddings.position_embeddings)
            tables = Embeddings(bert, *shared)
        self.generator = main
        if sharing != "all":
            self.generator = self._encoder(bert, "generator", tables)
        self.generator_model = ElectraGenerator(
            self.generator.config, encoder=self.generator, seed=None
        )
        self.generator_predictions = self.generator_model.head

    def _build_towers(self) -> None:
        bert = self.config.model.generator(self.vocabulary.size)
        is_shared = self.config.model.generator_sharing == "embeddings"
        self.generator = TwoTowerModel(
            bert,
            self.electra.embeddings if is_shared else None,
            is_packed=self.config.corpus.is_packed,
            dtype=self.policy,
        )
        self.cloze_predictions = heads.GeneratorPredictions(
            bert, "cloze_predictions", self.policy
        )
        self.cloze_predictions.build((None, None, 2 * bert.hidden_size))

    @property
    def detector(self) -> tuple[keras.layers.Layer, ...]:
        """Layers of `discriminate`; () if the objective has no verdicts."""
        return (self.electra, self.discriminator_predictions)

    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        corrupted = self.corrupt(inputs, keys=keys, training=training)
        inner = self.main_dropout(keys, training)
        disc_logits = self.discriminate(corrupted.fake.inputs, inner)
        return corrupted.extended(disc_logits=disc_logits)

    def corrupt(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        """Masks tokens, and replaces them by samples from the generator."""
        masked = self.mask(inputs, keys)
        mlm_logits, cloze = self._generate(
            inputs, masked, self.generator_dropout(keys, training)
        )
        if self.has_frozen_generator:
            mlm_logits = tf.stop_gradient(mlm_logits)
        fake = self._replace_by_samples(inputs, masked, mlm_logits, keys)
        return ForwardPass(
            inputs=inputs,
            masked=masked,
            mlm_logits=mlm_logits,
            fake=fake,
            cloze=cloze,
        )

    def discriminate(
        self, inputs: Inputs, keys: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Scores each token of some text: keys [B] -> [B, L]."""
        return self.discriminator_model(inputs._asdict(), keys=keys)["logits"]

    def cloze(
        self, inputs: Inputs, keys: tf.Tensor | None = None
    ) -> tuple[TokenDistribution, tf.Tensor]:
        """Predicts each token from all others, also by states [B, L, 2H]."""
        states = self.generator(*inputs, keys=keys)
        distribution = self.cloze_predictions.distribution(
            states, self.generator.word_embeddings, self._has_cloze(inputs)
        )
        return distribution, states

    def _has_cloze(self, inputs: Inputs) -> tf.Tensor:
        """Returns bool [B, L], True where the distribution is needed."""
        return pretrain_helpers.candidates_mask(inputs, self.vocabulary)

    def _generate(
        self, inputs: Inputs, masked: Masked, keys: tf.Tensor | None
    ) -> tuple[tf.Tensor, TokenDistribution | None]:
        """Returns the generator's logits, float32 [B, N, V]."""
        if not self.has_generator:
            kind = self.config.objective.generator_type
            logits = generators.constant_logits(kind, self.vocabulary)
            shape = tensor_ops.shape_of(masked.positions)
            return tf.broadcast_to(logits, [*shape, len(logits)]), None
        if self.has_two_towers:
            cloze, states = self.cloze(inputs, keys)
            states = tensor_ops.gather_positions(states, masked.positions)
            return self.cloze_predictions(states, cloze.table), cloze
        ids = masked.inputs._asdict() | {"positions": masked.positions}
        return self.generator_model(ids, keys=keys)["logits"], None

    def main_dropout(
        self, keys: RandomKeys, training: bool
    ) -> tf.Tensor | None:
        """Returns the keys of the main encoder's dropout, uint32 [B]."""
        return dropout_keys(keys, Purpose.DISCRIMINATOR_DROPOUT, training)

    @property
    def word_table(self) -> tf.Tensor:
        """The word embeddings of the main encoder, float32 [V, E]."""
        return tf.convert_to_tensor(self.electra.embeddings.word_embeddings)

    def generator_dropout(
        self, keys: RandomKeys, training: bool
    ) -> tf.Tensor | None:
        """Returns keys of the generator's dropout; a frozen one has none."""
        is_on = training and not self.has_frozen_generator
        return dropout_keys(keys, Purpose.GENERATOR_DROPOUT, is_on)

    def _replace_by_samples(
        self,
        inputs: Inputs,
        masked: Masked,
        logits: tf.Tensor,
        keys: RandomKeys,
    ) -> FakeData:
        """Puts samples from the generator into the masked positions."""
        logits = generators.sampling_logits(
            logits, masked, self.config, self.temperature(keys)
        )
        sampled = self._sample(tf.stop_gradient(logits), keys)  # [B, N]
        ids = pretrain_helpers.replace(
            inputs.input_ids, masked.positions, sampled, masked.weights > 0
        )
        return FakeData(
            inputs=inputs._replace(input_ids=ids),
            is_fake_tokens=tf.cast(ids != inputs.input_ids, tf.int32),
            sampled_ids=sampled,
        )

    def temperature(self, keys: RandomKeys) -> float | tf.Tensor:
        """Returns the temperature of sampling; a tensor is float32 [B, 1]."""
        return self.config.objective.temperature_at(progress(keys))

    def _sample(self, logits: tf.Tensor, keys: RandomKeys) -> tf.Tensor:
        """Samples from softmax(logits), int32 [B, N]."""
        return generators.sample(
            logits, keys, original="sampling" in self.config.original_behaviour
        )

    def loss_factors(self, keys: RandomKeys) -> dict[str, float | tf.Tensor]:
        factors, objective = super().loss_factors(keys), self.config.objective
        if any(objective.disc_weight_steps):
            step = step_of(keys, self.config.training.num_train_steps)
            factors["disc_loss"] *= linear_ramp(
                tf.reduce_max(step), *objective.disc_weight_steps
            )
        return factors

    def learning_rates(self) -> dict[str, float | Rate]:
        """Returns the rates of the generator and a delayed discriminator."""
        config, objective = self.config.optimizer, self.config.objective
        rates = {}
        if config.generator_learning_rate is not None:
            rate = config.generator_learning_rate / config.learning_rate
            paths = [variable.path for variable in self.trainable_variables]
            rates = {p: rate for p in paths if p.startswith(_GENERATOR)}
        if any(objective.disc_weight_steps):
            rising = schedules.RisenSteps(
                *objective.disc_weight_steps, config.adam_beta2
            )
            rates |= dict.fromkeys(self.discriminator_only_paths, rising)
        return rates

    @property
    def discriminator_only_paths(self) -> set[str]:
        """Paths of the variables that only `disc_loss` trains."""
        is_shared = len(self.declare_main_losses()) > 1
        late = self.detector[int(is_shared) :]
        paths = {v.path for layer in late for v in layer.trainable_variables}
        if generator := getattr(self, "generator", None):
            paths -= {v.path for v in generator.trainable_variables}
        return {path for path in paths if not path.startswith(_GENERATOR)}

    def measure(self, forward_pass: ForwardPass) -> Metrics:
        return {
            **self._generator_metrics(forward_pass),
            **discriminator_metrics(
                forward_pass.disc_logits,
                forward_pass.fake.is_fake_tokens,
                self._judged(forward_pass.inputs, forward_pass.masked),
            ),
        }

    def _generator_metrics(self, forward_pass: ForwardPass) -> Metrics:
        metrics, masked = {}, forward_pass.masked
        if self.has_generator:
            metrics = softmax_metrics(
                "masked_lm", forward_pass.mlm_logits, masked.ids, masked.weights
            )
        if self.has_two_towers:
            cloze, inputs = forward_pass.cloze, forward_pass.inputs
            learned = pretrain_helpers.candidates_mask(inputs, self.vocabulary)
            learned = tf.cast(learned, tf.float32)  # [B, L]
            nats = -cloze.log_probs(inputs.input_ids)
            is_best = cloze.best == inputs.input_ids
            metrics["cloze_loss"] = losses.weighted(nats, learned)
            metrics["cloze_accuracy"] = losses.weighted(is_best, learned)
        return {
            **metrics,
            "sampled_masked_lm_accuracy": losses.weighted(
                forward_pass.fake.sampled_ids == masked.ids, masked.weights
            ),
        }
