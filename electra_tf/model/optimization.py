"""Adam without bias correction, as the original's, and Muon inside the blocks.

Source: the original's model/optimization.py; Muon: K. Jordan, "Muon: an
optimizer for hidden layers in neural networks" (2024), its step size from
arXiv:2502.16982. Gradients are clipped by the training step, after they are
summed over replicas and micro-batches.
"""

import collections
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import keras
import tensorflow as tf

from electra_tf.model import schedules, xla_kernels

Rate = float | keras.optimizers.schedules.LearningRateSchedule
_MOMENTUM = 0.95
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # steepest at 0 for five iterations
_BLOCK_KERNEL = re.compile(r"encoder/layer_\d+/.*kernel$")
_NOT_DECAYED = re.compile(r"(LayerNorm|layer_norm)[^/]*/[^/]+$|bias$")


def layerwise_rates(
    paths: Iterable[str],
    decay: float,
    num_layers: int,
    *,
    original: bool = False,
) -> dict[str, float]:
    """Returns the learning rate factor of each variable, by its depth.

    Differs: the original skips a depth below the head, where BERT had its
    pooler: its top layer has decay^2, and all layers below `decay` times their
    factor here.
    """
    top, rates = num_layers + (2 if original else 1), {}
    for path in paths:
        if "/embeddings/" in path or "/embeddings_project/" in path:
            depth = 0
        elif match := re.search(r"encoder/layer_(\d+)/", path):
            depth = int(match[1]) + 1
        elif "task_specific/" in path:
            depth = top
        else:
            raise ValueError(f"{path} is in no embeddings, layer or head.")
        rates[path] = decay ** (top - depth)
    return rates


def lookup_squares(
    variables: Sequence[keras.Variable],
    gradients: Sequence[tf.Tensor | tf.IndexedSlices],
) -> dict[str, tf.Tensor]:
    """Computes half the squared norm of sparse gradients of word embeddings."""
    return {
        variable.path: tf.nn.l2_loss(gradient.values)
        for variable, gradient in zip(variables, gradients, strict=True)
        if isinstance(gradient, tf.IndexedSlices)
        and variable.path.endswith("/word_embeddings")
    }


def global_norm(
    variables: Sequence[keras.Variable],
    gradients: Sequence[tf.Tensor],
    lookups: Mapping[str, tf.Tensor],
) -> tf.Tensor:
    """Computes the norm of all gradients together."""
    halves = [
        lookups[variable.path]
        if variable.path in lookups
        else tf.nn.l2_loss(gradient)
        for variable, gradient in zip(variables, gradients, strict=True)
    ]
    return tf.sqrt(2.0 * tf.reduce_sum(tf.stack(halves)))


def clip_scale(norm: tf.Tensor, clip_norm: float) -> tf.Tensor:
    """Returns the factor that clips gradients to a maximum norm."""
    scale = clip_norm * tf.minimum(1.0 / norm, 1.0 / clip_norm)
    return tf.where(tf.math.is_finite(norm), scale, float("nan"))


@keras.saving.register_keras_serializable("electra_tf")
class AdamWeightDecayOptimizer(keras.optimizers.Optimizer):
    """Adam without bias correction, with decoupled weight decay.

        m = beta_1 m + (1 - beta_1) g
        v = beta_2 v + (1 - beta_2) g^2
        w = w - rate * (m / (sqrt(v) + epsilon) + weight_decay_rate * w)

    LayerNorm parameters and biases are not decayed.

    Args:
      learning_rate: a number or a schedule.
      weight_decay_rate: decoupled decay, multiplied by the learning rate.
      beta_1: decay of the mean of gradients.
      beta_2: decay of the mean of squared gradients.
      epsilon: added to the square root, not under it.
      rates: path of a variable -> factor of its learning rate, a number or a
        schedule; 1 where absent. With 0 a variable keeps its bits.
      name: name of the optimizer.
      **options: clipping, averages, ... of `keras.optimizers.Optimizer`, which
        `apply` heeds and `apply_reduced` does not.
    """

    def __init__(
        self,
        learning_rate: Rate,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        *,
        rates: Mapping[str, Rate] | None = None,
        name: str = "adam",
        **options: Any,  # noqa: ANN401 (Keras')
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **options)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.rates = dict(rates or {})

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self.means, self.squares = (
            [self.add_variable_from_reference(v, slot) for v in variables]
            for slot in ("adam_m", "adam_v")
        )

    def can_update(self, variables: Sequence[keras.Variable]) -> bool:
        """Returns whether it is unbuilt or was built for these variables."""
        own = [id(v) for v in self._trainable_variables]
        return not self.built or own == [id(v) for v in variables]

    def slots(self) -> Iterable[tuple[keras.Variable, ...]]:
        """Returns each variable of `build`, its `adam_m` and its `adam_v`."""
        variables = self._trainable_variables
        return zip(variables, self.means, self.squares, strict=True)

    def update_step(
        self,
        gradient: tf.Tensor,
        variable: tf.Variable,
        learning_rate: tf.Tensor,
    ) -> None:
        index = self._get_variable_index(variable)
        mean, square = self.means[index].value, self.squares[index].value
        keras_variable = self._trainable_variables[index]
        self._rule_of(keras_variable)(
            variable,
            [[variable], [tf.convert_to_tensor(gradient)], [mean], [square]],
            learning_rate,
            self._factors_of(keras_variable),
            tf.constant(1.0),
        )

    def apply_reduced(
        self,
        gradients: Sequence[tf.Tensor | None],
        *,
        scale: float | tf.Tensor = 1.0,
    ) -> None:
        """Updates variables from gradients already summed over replicas.

        Differs from `apply`, which sums gradients over replicas first: the
        training step has done so already, since it must clip after the sum.

        Args:
          gradients: dense, one for each variable of `build`, in its order;
            with None a variable and its slots do not change.
          scale: float32 scalar, factor of the gradients, see `clip_scale`.
        """
        rate = self._get_current_learning_rate()
        args = (list(gradients), rate, tf.convert_to_tensor(scale))
        tf.distribute.get_replica_context().merge_call(self._update_all, args)

    def _update_all(
        self,
        strategy: tf.distribute.Strategy,
        gradients: list[tf.Tensor | None],
        learning_rate: tf.Tensor,
        scale: tf.Tensor,
    ) -> None:
        variables = self._trainable_variables
        for indices in self._groups(gradients):
            values, means, squares = (
                [x[i].value for i in indices]
                for x in (variables, self.means, self.squares)
            )
            state = [values, [gradients[i] for i in indices], means, squares]
            factors = self._factors_of(variables[indices[0]])
            strategy.extended.update(
                values[0],
                self._rule_of(variables[indices[0]]),
                args=(state, learning_rate, factors, scale),
                group=False,
            )
        self.iterations.assign_add(1)

    def _groups(
        self, gradients: Sequence[tf.Tensor | None]
    ) -> Iterable[list[int]]:
        """Groups small variables of one rate and decay, to update at once."""
        groups = collections.defaultdict(list)
        for i, variable in enumerate(self._trainable_variables):
            if gradients[i] is None:
                continue
            is_large = xla_kernels.is_worth_compiling(variable.value)
            rate = self.rates.get(variable.path, 1.0)
            alike = (rate, self._decay_of(variable))
            groups[i if is_large else alike].append(i)
        return groups.values()

    def _rule_of(self, variable: keras.Variable) -> Callable[..., None]:
        """Returns the function that updates variables of this kind."""
        del variable
        return self._update

    def _update(
        self,
        _: tf.Variable,
        state: Sequence[list[tf.Variable | tf.Tensor]],
        learning_rate: tf.Tensor,
        factors: tuple[float | tf.Tensor, float],
        scale: tf.Tensor,
    ) -> None:
        """Updates variables of one rate and decay on one device.

        The state holds the variables, their gradients, means and squares.
        """
        variables, _, means, squares = state
        numbers = self.beta_1, self.beta_2, self.epsilon
        step = functools.partial(_step, numbers)
        if xla_kernels.is_worth_compiling(variables[0]):
            step = _kernel(numbers)
        rate, decay = learning_rate * factors[0], tf.constant(factors[1])
        results = step(*map(_concat, state), rate, decay, scale)
        slots = (variables, means, squares)
        for targets, result in zip(slots, results, strict=True):
            _assign_parts(targets, result)

    def _factors_of(
        self, variable: keras.Variable
    ) -> tuple[float | tf.Tensor, float]:
        """Returns the factor of the learning rate, and the decay."""
        rate = self.rates.get(variable.path, 1.0)
        rate = rate(self.iterations.value) if callable(rate) else rate
        return rate, self._decay_of(variable)

    def _decay_of(self, variable: keras.Variable) -> float:
        is_decayed = not _NOT_DECAYED.search(variable.path)
        return self.weight_decay_rate if is_decayed else 0.0

    def get_config(self) -> dict:
        names = ("weight_decay_rate", "beta_1", "beta_2", "epsilon", "rates")
        return super().get_config() | {n: getattr(self, n) for n in names}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        rates = schedules.restored(config["rates"])
        return super().from_config({**config, "rates": rates})


@keras.saving.register_keras_serializable("electra_tf")
class MuonOptimizer(AdamWeightDecayOptimizer):
    """Muon for the kernels inside the blocks, Adam for all other variables.

        m = 0.95 m + 0.05 g
        step = 0.2 sqrt(max(rows, columns)) * orthogonal(0.95 m + 0.05 g)
        w = w - rate * (step + weight_decay_rate * w)

    with `orthogonal` a matrix of about the same singular vectors and singular
    values near 1. A step is as large as Adam's at the same rate. The mean is
    in Adam's slot `adam_m`; `adam_v` stays 0 for these kernels.

    Args: those of `AdamWeightDecayOptimizer`, whose betas are those of Adam.
    """

    def _groups(
        self, gradients: Sequence[tf.Tensor | None]
    ) -> Iterable[list[int]]:
        """Groups kernels by size and rate, and the rest as Adam does."""
        variables = self._trainable_variables
        rest, kernels = list(gradients), collections.defaultdict(list)
        for i, variable in enumerate(variables):
            is_for_muon = _BLOCK_KERNEL.search(variable.path)
            if is_for_muon and gradients[i] is not None:
                rate = self.rates.get(variable.path, 1.0)
                kernels[rate, *sorted(variable.shape)].append(i)
                rest[i] = None
        return [*kernels.values(), *super()._groups(rest)]

    def _rule_of(self, variable: keras.Variable) -> Callable[..., None]:
        is_for_muon = _BLOCK_KERNEL.search(variable.path)
        return _muon if is_for_muon else super()._rule_of(variable)


OPTIMIZERS = {"adam": AdamWeightDecayOptimizer, "muon": MuonOptimizer}


def _muon(
    _: tf.Variable,
    state: Sequence[list[tf.Variable | tf.Tensor]],
    learning_rate: tf.Tensor,
    factors: tuple[float | tf.Tensor, float],
    scale: tf.Tensor,
) -> None:
    """Updates kernels of one rate and size on one device."""
    variables, gradients, means, _ = state
    nesterov = []
    for gradient, mean in zip(gradients, means, strict=True):
        gradient *= (1 - _MOMENTUM) * scale
        mean.assign(_MOMENTUM * mean + gradient)
        nesterov.append(_MOMENTUM * mean + gradient)
    (rate, decay), size = factors, 0.2 * max(variables[0].shape) ** 0.5
    rate *= learning_rate
    for variable, step in zip(variables, orthogonal(nesterov), strict=True):
        variable.assign_sub(rate * (size * step + decay * variable))


def orthogonal(matrices: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Brings singular values near 1: [m, n] or [n, m] each, in one product.

    Five Newton-Schulz iterations, which take values of 0.01 to 1 to 0.7 to 1.2.
    """
    is_tall = [x.shape[0] > x.shape[1] for x in matrices]

    def turned(matrices: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        pairs = zip(matrices, is_tall, strict=True)
        return [tf.transpose(x) if tall else x for x, tall in pairs]

    x = tf.stack(turned(matrices))  # [k, m, n], m <= n
    x /= tf.norm(x, axis=(1, 2), keepdims=True) + 1e-7
    a, b, c = _NEWTON_SCHULZ
    for _ in range(5):
        square = tf.matmul(x, x, transpose_b=True)  # [k, m, m]
        x = a * x + (b * square + c * square @ square) @ x
    return turned(tf.unstack(x))


def _step(
    numbers: tuple[float, float, float],
    variable: tf.Tensor,
    gradient: tf.Tensor,
    mean: tf.Tensor,
    square: tf.Tensor,
    rate: tf.Tensor,
    decay: tf.Tensor,
    scale: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the new variable, mean and square; see the optimizer."""
    beta_1, beta_2, epsilon = numbers
    gradient *= scale
    m = beta_1 * mean + (1 - beta_1) * gradient
    v = beta_2 * square + (1 - beta_2) * tf.square(gradient)
    update = m / (tf.sqrt(v) + epsilon) + decay * variable
    return variable - rate * update, m, v


@functools.cache
def _kernel(numbers: tuple[float, float, float]) -> Callable:
    """Compiles `_step` for vectors, once for each set of numbers."""
    return tf.function(
        functools.partial(_step, numbers),
        [xla_kernels.VECTOR] * 4 + [xla_kernels.SCALAR] * 3,
        jit_compile=True,
        autograph=False,
    )


def _concat(tensors: Sequence[tf.Variable | tf.Tensor]) -> tf.Tensor:
    """Concatenates tensors of any shapes to a vector."""
    vectors = [x if len(x.shape) == 1 else tf.reshape(x, [-1]) for x in tensors]
    return tf.concat(vectors, 0)


def _assign_parts(variables: Sequence[tf.Variable], values: tf.Tensor) -> None:
    """Splits what `_concat` returned, and assigns it to the variables."""
    sizes = [variable.shape.num_elements() for variable in variables]
    parts = tf.split(values, sizes) if len(sizes) > 1 else [values]
    for variable, part in zip(variables, parts, strict=True):
        is_vector = len(variable.shape) == 1
        variable.assign(part if is_vector else tf.reshape(part, variable.shape))
