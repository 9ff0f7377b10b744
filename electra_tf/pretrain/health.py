"""Warnings when the losses of a run look unhealthy.

A healthy run starts at the chance loss. After warm-up the discriminator's loss
is below the entropy of the share of replaced tokens, the loss of a constant
prediction, and the generator is wrong often enough to leave something to find.
"""

import math
from collections.abc import Callable, Iterator, Mapping

import keras
import scipy.special

from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.util import console

_SMOOTHING = 0.2  # weight of the newest block in the running means
_PRIOR_SHARE = 0.97  # of the prior's entropy: nothing was learned
_START_TOLERANCE = 0.4  # relative distance of the first loss from chance
_GENERATOR_LIMIT = 0.6  # accuracy of its samples, as of the paper's Large
_PATIENCE = 1000  # updates before any warning about learning
_DIVERGENCE_RISE = 0.3  # relative rise of the running loss above its lowest
_MIN_ENTROPY_SHARE = 0.25  # entropy over loss of an overconfident generator


class HealthMonitor(keras.callbacks.Callback):
    """Watches the training metrics, and warns once until a problem clears."""

    def __init__(
        self,
        objective: PretrainingModel,
        warn: Callable[[str], None] = console.warn,
    ) -> None:
        super().__init__()
        config = objective.config
        self.warn = warn
        self.objective = objective
        self.patience = max(_PATIENCE, 2 * config.optimizer.num_warmup_steps)
        self._means: dict[str, float] = {}
        self._lowest = math.inf
        self._last_step = 0
        self._warned: set[str] = set()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if epoch == 1:
            loss, chance = logs["loss"], expected_start(self.objective)
            if chance and abs(loss - chance) > _START_TOLERANCE * chance:
                self.warn(
                    f"The first loss is {loss:.2f}; chance level is "
                    f"{chance:.2f}. Check the vocabulary, the data and "
                    "--initializer_range."
                )
            return
        previous, self._last_step = self._last_step, epoch
        switch = self.objective.switch_step
        if previous <= switch < epoch:
            self._means, self._lowest = {}, math.inf
            if previous < switch:  # a block of both stages
                return
        for name, value in logs.items():
            old = self._means.get(name, value)
            self._means[name] = old + _SMOOTHING * (value - old)
        self._lowest = min(self._lowest, self._means["loss"])
        problems = dict(self._problems(epoch))
        for name, sentence in problems.items():
            if name not in self._warned:
                self.warn(f"Step {epoch:,}: {sentence}")
        self._warned = set(problems)

    def _problems(self, step: int) -> Iterator[tuple[str, str]]:
        """Yields each problem that the running means show: name, sentence."""
        means, switch = self._means, self.objective.switch_step
        if means["loss"] - self._lowest > _DIVERGENCE_RISE * abs(self._lowest):
            yield (
                "divergence",
                f"the loss rises: {means['loss']:.2f}, from a minimum of "
                f"{self._lowest:.2f}. Lower --learning_rate.",
            )
        if step - switch * (step > switch) <= self.patience:
            return
        late = self.objective.config.objective.disc_weight_steps[1]
        problem = constant_prediction(self.objective, means)
        if problem and step - late > self.patience:
            yield (
                "prior",
                f"{problem} If it persists, sample at a temperature that falls "
                "(--temperature=3 --temperature_end=1), or try another "
                "--learning_rate or a smaller generator.",
            )
        accuracy = means.get("sampled_masked_lm_accuracy", 0.0)
        if accuracy > _GENERATOR_LIMIT:
            yield (
                "generator",
                f"{100 * accuracy:.0f} % of the generator's samples equal the "
                "original token. Use a higher --mask_prob or a smaller "
                "generator.",
            )
        uncertainty = means.get("generator_entropy", math.inf)
        if uncertainty < _MIN_ENTROPY_SHARE * means.get("masked_lm_loss", 0.0):
            yield (
                "collapse",
                "the generator is collapsing: its predictions have an entropy "
                f"of {uncertainty:.2f} nats and a loss of "
                f"{means['masked_lm_loss']:.2f}. Lower --adversarial_weight.",
            )


def expected_start(model: PretrainingModel) -> float | None:
    """Returns the total loss, nats, of networks that predict at random."""
    training = model.config.training
    has_trained_generator = (
        training.generator_checkpoint and not model.is_frozen(model.config)
    )
    if training.init_checkpoint or has_trained_generator:
        return None
    declared = model.declare_losses().values()
    return sum(loss.weight * loss.chance for loss in declared)


def constant_prediction(
    model: PretrainingModel, metrics: Mapping[str, float]
) -> str | None:
    """Says that a discriminator predicts about the same for every token."""
    if model.token_output == "energies" or "disc_loss" not in metrics:
        return None
    loss, share = metrics["disc_loss"], metrics["replaced_share"]
    prior = float(scipy.special.entr([share, 1 - share]).sum())
    if loss <= _PRIOR_SHARE * prior:
        return None
    return (
        "the discriminator has learned little beyond the share of replaced "
        f"tokens ({share:.3f}): its loss is {loss:.4f}, that of a constant "
        f"prediction is {prior:.4f}."
    )
