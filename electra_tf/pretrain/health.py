"""Warnings when the losses of a run are not those of a healthy one.

A healthy run starts at the chance loss, for ELECTRA
gen_weight ln V + disc_weight ln 2; after warm-up the discriminator's loss is
below the entropy of the share of replaced tokens, the loss of a constant
prediction; and the generator is wrong often enough for the discriminator to
have replaced tokens to detect.
"""

import math
from collections.abc import Callable, Mapping

import keras

from electra_tf.pretrain.pretraining_model import PretrainingModel

_SMOOTHING = 0.2  # weight of the newest block in the running means
# Share of the prior's entropy that counts as "learned nothing".
_PRIOR_SHARE = 0.97
_START_TOLERANCE = 0.4  # relative distance of the first loss from chance
_PATIENCE = 1000  # updates before any warning about learning
_DIVERGENCE_RISE = 0.3  # relative rise of the running loss above its lowest
_MIN_ENTROPY_SHARE = 0.25  # entropy over loss of an overconfident generator


class HealthMonitor(keras.callbacks.Callback):
    """Watches the training metrics, and warns once until a problem clears."""

    def __init__(
        self,
        warn: Callable[[str], None],
        *,
        expected_start: float | None,
        num_warmup_steps: int,
        generator_limit: float,
        has_own_generator: bool = True,
        has_energies: bool = False,
        switch_step: int = 0,
        late_step: int = 0,
    ) -> None:
        super().__init__()
        self.warn = warn
        self.expected_start = expected_start
        self.num_warmup_steps = num_warmup_steps
        self.generator_limit = generator_limit
        self.has_own_generator = has_own_generator
        self.has_energies = has_energies
        self.switch_step = switch_step
        self.late_step = late_step
        self._means: dict[str, float] = {}
        self._lowest = math.inf
        self._last_step = 0  # the last update whose metrics were checked
        self._warned: set[str] = set()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        logs = logs or {}
        if "loss" not in logs:  # all updates were skipped
            return
        if epoch == 1:
            if self.expected_start is not None:
                self._check_start(logs["loss"], self.expected_start)
            return
        if self._restart_at_switch(epoch):
            return
        for name, value in logs.items():
            old = self._means.get(name, value)
            self._means[name] = old + _SMOOTHING * (value - old)
        self._check_divergence(epoch)
        since = epoch - self.switch_step * (epoch > self.switch_step)
        patience = max(_PATIENCE, 2 * self.num_warmup_steps)
        if min(since, epoch - self.late_step) > patience:
            self._check_discriminator(epoch)
        if since > patience:
            self._check_generator(epoch)
            self._check_entropy(epoch)

    def _restart_at_switch(self, step: int) -> bool:
        """Restarts the means in the block after the switch."""
        first, self._last_step = self._last_step, step
        if not first <= self.switch_step < step:
            return False
        self._means, self._lowest = {}, math.inf
        return first < self.switch_step

    def _check_start(self, loss: float, expected: float) -> None:
        self._warn_once(
            "start",
            abs(loss - expected) > _START_TOLERANCE * expected,
            f"The first loss is {loss:.2f}; chance level is {expected:.2f}. "
            "Check the vocabulary, the data and --initializer_range.",
        )

    def _check_divergence(self, step: int) -> None:
        loss = self._means["loss"]
        self._lowest = min(self._lowest, loss)
        self._warn_once(
            "divergence",
            loss - self._lowest > _DIVERGENCE_RISE * abs(self._lowest),
            f"Step {step:,}: the loss is going up: {loss:.2f}, from a minimum "
            f"of {self._lowest:.2f}. Lower --learning_rate or raise "
            "--num_warmup_steps.",
        )

    def _check_discriminator(self, step: int) -> None:
        found = constant_prediction(self._means, has_energies=self.has_energies)
        self._warn_once(
            "prior",
            found is not None,
            f"Step {step:,}: {found} This is normal early in training; if it "
            "persists, sample at a temperature that falls (--temperature=3 "
            "--temperature_end=1), try another --learning_rate or a smaller "
            "generator, or train longer.",
        )

    def _check_generator(self, step: int) -> None:
        accuracy = self._means.get("sampled_masked_lm_accuracy", 0.0)
        smaller = "a smaller generator or " if self.has_own_generator else ""
        self._warn_once(
            "generator",
            accuracy > self.generator_limit,
            f"Step {step:,}: {100 * accuracy:.0f} % of the generator's samples "
            "equal the original token, so few replaced tokens are left to "
            f"detect. Use {smaller}a higher --mask_prob.",
        )

    def _check_entropy(self, step: int) -> None:
        if "generator_entropy" not in self._means:
            return
        found = self._means["generator_entropy"]
        loss = self._means["masked_lm_loss"]
        self._warn_once(
            "collapse",
            found < _MIN_ENTROPY_SHARE * loss,
            f"Step {step:,}: the generator is collapsing: the entropy of its "
            f"predictions is {found:.2f} nats, but its loss is {loss:.2f}. "
            "Lower --adversarial_weight or raise it later "
            "(--adversarial_start_step, --adversarial_end_step).",
        )

    def _warn_once(self, kind: str, has_problem: bool, sentence: str) -> None:
        if has_problem and kind not in self._warned:
            self.warn(sentence)
            self._warned.add(kind)
        elif not has_problem:
            self._warned.discard(kind)


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
    metrics: Mapping[str, float], *, has_energies: bool
) -> str | None:
    """Says that a discriminator predicts about the same for every token."""
    if has_energies or "disc_loss" not in metrics:
        return None
    loss, share = metrics["disc_loss"], metrics["replaced_share"]
    prior = entropy(share)
    if loss <= _PRIOR_SHARE * prior:
        return None
    return (
        "the discriminator has learned little beyond the share of replaced "
        f"tokens ({share:.3f}): its loss is {loss:.4f}, that of a constant "
        f"prediction is {prior:.4f}."
    )


def entropy(share: float) -> float:
    """Returns the entropy of a biased coin, in nats."""
    if not 0.0 < share < 1.0:
        return 0.0
    return -share * math.log(share) - (1 - share) * math.log1p(-share)
