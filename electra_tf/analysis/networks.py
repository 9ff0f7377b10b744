"""The networks of a checkpoint that score text.

Which scores a checkpoint can give follows from its heads and, if a run wrote
it, from the run's `config.json`: the same head outputs logits of P(replaced)
(ELECTRA) or energies (Electric). Without that file they are taken for logits of
P(replaced); but beside two towers, where either is possible, it is not used.

The correctors of `replace_mlm` and `all_tokens_mlm` give no score: they read
the token that they predict, so that their output is not a probability given the
other tokens. The generator beside them fills masks.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from etils import epath

from electra_tf.checkpoint import bundles, loading
from electra_tf.checkpoint.architecture import DISCRIMINATOR_HEAD
from electra_tf.checkpoint.weights import Weights, check_vocabulary, select
from electra_tf.config.objectives import get_class
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import pseudo_likelihood, tensor_ops, vocabulary_softmax
from electra_tf.model.heads import ClozePredictions
from electra_tf.model.layers import POLICIES
from electra_tf.model.networks import ElectraDiscriminator, complete_ids
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.text_reader import Ids
from electra_tf.model.two_tower import TwoTowerModel
from electra_tf.util import files
from electra_tf.util.errors import UserError
from electra_tf.util.flags import CONFIG_FILE, load_config

SCORES = ("electric", "two_tower", "discriminator", "mlm")
"""Names of the scores; the first one that a model has is the model's own."""

ROWS_SPEC = tf.TensorSpec([None, None], tf.int32)
"""The rows of a batch, as an argument of a compiled function."""


def padded(
    rows: Sequence[Sequence[float]],
    value: float = 0,
    dtype: npt.DTypeLike = np.int32,
) -> np.ndarray:
    """Pads rows of different lengths to an array, [rows, longest]."""
    array = np.full((len(rows), max(map(len, rows))), value, dtype)
    for line, row in zip(array, rows, strict=True):
        line[: len(row)] = row
    return array


def compiled(
    function: Callable, *signature: tf.TensorSpec
) -> tf.types.experimental.ConcreteFunction:
    """Compiles a function once; for many checkpoints TensorFlow would warn."""
    made = tf.function(function, input_signature=signature, autograph=False)
    return made.get_concrete_function()


class ScoringNetworks:
    """Networks of a checkpoint that score text, with a common vocabulary."""

    def __init__(
        self,
        path: str,
        *,
        generator: str = "",
        vocab_file: str = "",
        precision: str = "float32",
    ) -> None:
        weights = loading.read_with_vocabulary(path, vocab_file)
        mlm_weights = _read_mlm_weights(weights, generator)
        self.training = _training_of(weights)
        kind = _output_kind(weights, self.training)
        self.scores = _scores(
            weights, self.training, kind, has_mlm=bool(mlm_weights)
        )
        if not self.scores:
            raise UserError(f"{weights.origin} has no scores.")
        self.origin = weights.origin
        self.step = weights.step
        self.vocabulary = weights.vocabulary
        self.tokenizer_options = loading.tokenizer_options(weights)
        self.max_seq_length = weights.max_seq_length
        self.gives_energies = kind == "energies"
        self.discriminator = self.towers = None
        policy = POLICIES[precision]
        if kind in ("verdicts", "energies"):
            has_head = DISCRIMINATOR_HEAD in weights.architecture.heads
            name = "discriminator" if has_head else "generator"
            self.discriminator = loading.make(
                select(weights, name), dtype=policy
            )
        if "two_tower" in self.scores:
            self.towers = _make_towers(weights, self.discriminator, policy)
        self.generator = mlm_weights and loading.make(mlm_weights, dtype=policy)

    @property
    def max_position_embeddings(self) -> int:
        """Tokens of the longest row that all networks can read."""
        towers = self.towers and self.towers[0]
        networks = filter(None, (self.discriminator, towers, self.generator))
        return min(x.config.max_position_embeddings for x in networks)

    def detect(self, input_ids: np.ndarray) -> dict[str, np.ndarray]:
        """Computes the outputs of one forward pass for each token.

        Shapes: input_ids [B, L]; returns [B, L].
        """
        found = self._detect_traced(tf.constant(input_ids))
        return {name: x.numpy() for name, x in found.items()}

    @functools.cached_property
    def _detect_traced(self) -> tf.types.experimental.ConcreteFunction:
        return compiled(self._detect, ROWS_SPEC)

    def _detect(self, input_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = complete_ids({"input_ids": input_ids})
        outputs = {"logits": self._logits(ids)}
        if self.towers:
            outputs["two_tower"] = self._log_probs(ids, outputs["logits"])
        return outputs

    def _log_probs(self, ids: Ids, logits: tf.Tensor) -> tf.Tensor:
        """Returns log p(x_t | others) of two towers, float32 [B, L]."""
        towers, head = self.towers
        is_real = ids["input_mask"] > 0
        cloze = head.distributions(
            towers(**ids), towers.word_embeddings, is_real
        )
        return pseudo_likelihood.log_probs_of_texts(
            logits,
            cloze.log_probs(ids["input_ids"]),
            ids["input_mask"],
            masking=self.training.masking,
            max_seq_length=self.training.corpus.max_seq_length,
        )

    def _logits(self, ids: Ids) -> tf.Tensor:
        """Returns the logits of P(replaced), or energies, float32 [B, L]."""
        network = self.discriminator
        if isinstance(network, ElectraDiscriminator):
            return network(ids)["logits"]
        # As in objective=script: log (1 / V) sum exp of the words' logits.
        states = network.encoder(**ids).sequence_output
        partition = vocabulary_softmax.log_partition(
            network.head.project(states),
            tf.convert_to_tensor(network.encoder.embeddings.word_embeddings),
            tf.convert_to_tensor(network.head.output_bias),
            is_wanted=ids["input_mask"] > 0,
        )
        return partition.log_z - math.log(network.config.vocab_size)

    def predict_masked(
        self, input_ids: np.ndarray, positions: np.ndarray, num_repairs: int
    ) -> list[np.ndarray]:
        """Masks and predicts one token of each row.

        Shapes: input_ids [B, L], positions [B]; returns the log-probability of
        the token [B], ids of repairs [B, K] and their log-probabilities [B, K].
        """
        num_repairs = min(num_repairs, self.vocabulary.size)
        inputs = map(tf.constant, (input_ids, positions, num_repairs))
        return [x.numpy() for x in self._predict_traced(*inputs)]

    @functools.cached_property
    def _predict_traced(self) -> tf.types.experimental.ConcreteFunction:
        column, scalar = (tf.TensorSpec(x, tf.int32) for x in ([None], []))
        return compiled(self._predict, ROWS_SPEC, column, scalar)

    def _predict(
        self, input_ids: tf.Tensor, positions: tf.Tensor, num_repairs: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        tokens = tf.gather(input_ids, positions, batch_dims=1)  # [B]
        rows = tf.range(tf.shape(tokens)[0])
        masked = tf.tensor_scatter_nd_update(
            input_ids,
            tf.stack([rows, positions], -1),
            tf.fill(tf.shape(tokens), self.vocabulary.mask_id),
        )
        ids = complete_ids({"input_ids": masked})
        ids["positions"] = positions[:, tf.newaxis]
        logits = self.generator(ids)["logits"][:, 0]  # [B, V]
        log_probs = tf.nn.log_softmax(logits)
        is_other = tf.range(logits.shape[-1]) != tokens[:, tf.newaxis]
        others = tf.where(
            is_other & self._is_word, log_probs, tensor_ops.ZERO_PROB_LOGIT
        )
        best = tf.math.top_k(others, num_repairs)
        found = tf.gather(log_probs, tokens, batch_dims=1)
        return found, best.indices, best.values

    @functools.cached_property
    def _is_word(self) -> np.ndarray:
        """Which rows of the embedding table are words, bool [V]."""
        size = self.generator.config.vocab_size
        special = [self.vocabulary.ids[token] for token in SPECIAL_TOKENS]
        is_word = np.arange(size) < self.vocabulary.size
        is_word[special] = False
        return is_word


def _training_of(weights: Weights) -> PretrainingConfig | None:
    """Reads the configuration of the run that wrote a checkpoint, if any."""
    first, *_ = bundles.split_paths(weights.origin)
    path = epath.Path(weights.origin).parent / CONFIG_FILE
    if epath.Path(first).is_dir() or not path.exists():
        return None
    parts = files.read_json(path)
    if not isinstance(parts, Mapping) or "objective" not in parts:
        return None  # of a fine-tuning, or of another program
    return load_config(path, PretrainingConfig)


def _output_kind(weights: Weights, training: PretrainingConfig | None) -> str:
    """Returns the kind of the discriminator's outputs."""
    objective = training and get_class(training.objective.objective)
    if DISCRIMINATOR_HEAD not in weights.architecture.heads:
        is_script = objective and not objective.has_own_generator
        return objective.token_output if is_script else ""
    if objective is not None:
        return objective.token_output
    return "unknown" if weights.architecture.is_two_tower else "verdicts"


def _read_mlm_weights(weights: Weights, path: str) -> Weights | None:
    """Returns the weights of the network that fills masks; None without one."""
    if not path:
        has_one = "generator" in weights.networks
        return select(weights, "generator") if has_one else None
    other = loading.read(path)
    if other.vocabulary is None:
        other = dataclasses.replace(other, vocabulary=weights.vocabulary)
    if other.vocabulary != weights.vocabulary:
        raise UserError(
            f"{other.origin} and {weights.origin} differ in their vocabularies."
        )
    check_vocabulary(other)
    loading.warn_of_assumed_heads(other)
    return select(other, "generator")


def _scores(
    weights: Weights,
    training: PretrainingConfig | None,
    output_kind: str,
    *,
    has_mlm: bool,
) -> tuple[str, ...]:
    """Returns the scores that a checkpoint can give, its own first."""
    is_verdict = output_kind == "verdicts"
    has_towers = weights.architecture.is_two_tower and is_verdict
    if has_towers:
        try:
            pseudo_likelihood.check_samples(
                training.objective, training.masking
            )
        except UserError:
            has_towers = False
    is_given = (output_kind == "energies", has_towers, is_verdict, has_mlm)
    return tuple(itertools.compress(SCORES, is_given))


def _make_towers(
    weights: Weights, discriminator: ElectraDiscriminator, policy: str
) -> tuple[TwoTowerModel, ClozePredictions]:
    """Makes the two towers and their head, with their weights."""
    found = weights.architecture
    is_shared = found.generator_sharing == "embeddings"
    tables = discriminator.encoder.embeddings if is_shared else None
    towers = TwoTowerModel(found.generator, tables, dtype=policy)
    head = ClozePredictions(
        found.generator.embedding_size,
        found.generator.vocab_size,
        found.generator.initializer_range,
        name="cloze_predictions",
        dtype=policy,
    )
    head.build((None, None, 2 * found.generator.hidden_size))
    for variable in (*towers.weights, *head.weights):
        variable.assign(weights.arrays[variable.path])
    return towers, head
