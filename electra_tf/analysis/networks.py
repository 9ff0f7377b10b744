"""The networks of a checkpoint that score text.

The same head outputs logits of P(replaced) (ELECTRA) or energies (Electric), as
the run's objective tells. Without a run's `config.json`, outputs are logits of
P(replaced); beside two towers, where either is possible, they are not used. The
correctors of `replace_mlm` and `all_tokens_mlm` read the token that they
predict: only the generator beside them scores text.
"""

import dataclasses
import math

import numpy as np
import tensorflow as tf
from etils import epath

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.architecture import DISCRIMINATOR_HEAD
from electra_tf.checkpoint.weights import Weights, select
from electra_tf.config.objectives import get_class
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import tensor_ops, two_tower
from electra_tf.model.heads import GeneratorPredictions
from electra_tf.model.layers import POLICIES
from electra_tf.model.networks import ElectraDiscriminator, complete_ids
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.text_reader import Ids
from electra_tf.model.two_tower import TwoTowerModel
from electra_tf.util.errors import UserError
from electra_tf.util.flags import CONFIG_FILE, load_config

ROWS_SPEC = tf.TensorSpec([None, None], tf.int32)
"""The rows of a batch, as an argument of a compiled function."""


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
        mlm_weights = _mlm_weights(weights, generator)
        output = _token_output(weights)
        self.training = None
        if output == "verdicts":
            self.training = _two_tower_training(weights)
        is_given = {
            "electric": output == "energies",
            "two_tower": self.training is not None,
            "discriminator": output == "verdicts",
            "mlm": mlm_weights is not None,
        }
        # The model's own score comes first.
        self.scores = tuple(name for name in is_given if is_given[name])
        if not self.scores:
            raise UserError(f"{weights.origin} has no scores.")
        self.origin = weights.origin
        self.step = weights.step
        self.vocabulary = weights.vocabulary
        self.tokenizer_options = loading.tokenizer_options(weights)
        self.max_seq_length = weights.max_seq_length
        self.gives_energies = output == "energies"
        policy = POLICIES[precision]
        self.discriminator = self.towers = self.generator = None
        if output in ("verdicts", "energies"):
            main = select(weights, weights.networks[0])
            self.discriminator = loading.make(main, dtype=policy)
        if is_given["two_tower"]:
            self.towers, self.cloze = _make_towers(
                weights, self.discriminator, policy
            )
        if mlm_weights is not None:
            self.generator = loading.make(mlm_weights, dtype=policy)
        networks = (self.discriminator, self.towers, self.generator)
        self.max_position_embeddings = min(
            x.config.max_position_embeddings for x in networks if x is not None
        )

    def detect(self, input_ids: np.ndarray) -> dict[str, np.ndarray]:
        """Computes the outputs of one forward pass: ids [B, L] -> [B, L]."""
        # To call `_detect` itself would warn after a few checkpoints.
        detect = self._detect.get_concrete_function()
        outputs = detect(tf.constant(input_ids))
        return {name: x.numpy() for name, x in outputs.items()}

    @tf.function(input_signature=[ROWS_SPEC], autograph=False)
    def _detect(self, input_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = complete_ids({"input_ids": input_ids})
        outputs = {"logits": self._logits(ids)}
        if self.towers is not None:
            states = self.towers(**ids)
            cloze = self.cloze.distribution(
                states, self.towers.word_embeddings, ids["input_mask"] > 0
            )
            outputs["two_tower"] = two_tower.log_probs_of_texts(
                outputs["logits"],
                cloze.log_probs(input_ids),
                ids["input_mask"],
                masking=self.training.masking,
                max_seq_length=self.training.corpus.max_seq_length,
            )
        return outputs

    def _logits(self, ids: Ids) -> tf.Tensor:
        """Returns the logits of P(replaced), or energies, float32 [B, L]."""
        network = self.discriminator
        if isinstance(network, ElectraDiscriminator):
            return network(ids)["logits"]
        # As in objective=script: log (1 / V) sum exp of the words' logits.
        states = network.encoder(**ids).sequence_output
        words = network.head.distribution(
            states,
            network.encoder.embeddings.word_embeddings,
            ids["input_mask"] > 0,
        )
        return words.log_z - math.log(network.config.vocab_size)

    def predict_masked(
        self, input_ids: np.ndarray, positions: np.ndarray, num_repairs: int
    ) -> list[np.ndarray]:
        """Masks and predicts one token of each row.

        Shapes: input_ids [B, L], positions [B]; returns the log-probability of
        the token [B], ids of repairs [B, K] and their log-probabilities [B, K].
        """
        num_repairs = min(num_repairs, self.vocabulary.size)
        inputs = map(tf.constant, (input_ids, positions, num_repairs))
        predict = self._predict_masked.get_concrete_function()
        return [x.numpy() for x in predict(*inputs)]

    @tf.function(
        input_signature=[
            ROWS_SPEC,
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([], tf.int32),
        ],
        autograph=False,
    )
    def _predict_masked(
        self, input_ids: tf.Tensor, positions: tf.Tensor, num_repairs: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        tokens = tf.gather(input_ids, positions, batch_dims=1)  # [B]
        is_masked = tf.range(tf.shape(input_ids)[1]) == positions[:, tf.newaxis]
        masked = tf.where(is_masked, self.vocabulary.mask_id, input_ids)
        ids = complete_ids({"input_ids": masked})
        ids["positions"] = positions[:, tf.newaxis]
        logits = self.generator(ids)["logits"][:, 0]  # [B, V]
        log_probs = tf.nn.log_softmax(logits)
        is_word = np.arange(logits.shape[-1]) < self.vocabulary.size  # [V]
        is_word[[self.vocabulary.ids[token] for token in SPECIAL_TOKENS]] = 0
        is_other = tf.range(logits.shape[-1]) != tokens[:, tf.newaxis]
        others = tf.where(
            is_other & is_word, log_probs, tensor_ops.ZERO_PROB_LOGIT
        )
        best = tf.math.top_k(others, num_repairs)
        own = tf.gather(log_probs, tokens, batch_dims=1)
        return own, best.indices, best.values


def _token_output(weights: Weights) -> str:
    objective = get_class(weights.objective) if weights.objective else None
    if DISCRIMINATOR_HEAD in weights.architecture.heads:
        if objective is not None:
            return objective.token_output
        return "unknown" if weights.architecture.is_two_tower else "verdicts"
    is_script = objective is not None and not objective.has_own_generator
    return objective.token_output if is_script else ""


def _two_tower_training(weights: Weights) -> PretrainingConfig | None:
    """Returns the configuration of two towers that give p(x_t | others)."""
    if not weights.architecture.is_two_tower:
        return None
    path = epath.Path(weights.origin).parent / CONFIG_FILE
    training = load_config(path, PretrainingConfig)
    objective, masking = training.objective, training.masking
    is_exact = two_tower.has_exact_samples(objective, masking)
    return training if is_exact else None


def _mlm_weights(weights: Weights, path: str) -> Weights | None:
    """Returns the weights of the network that fills masks; None without one."""
    if not path:
        has_one = "generator" in weights.networks
        return select(weights, "generator") if has_one else None
    other = loading.read(path)
    if other.vocabulary not in (None, weights.vocabulary):
        raise UserError(
            f"{other.origin} and {weights.origin} differ in their vocabularies."
        )
    other = dataclasses.replace(other, vocabulary=weights.vocabulary)
    loading.warn_of_assumed_heads(other)
    return select(other, "generator")


def _make_towers(
    weights: Weights, discriminator: ElectraDiscriminator, policy: str
) -> tuple[TwoTowerModel, GeneratorPredictions]:
    architecture, sizes = weights.architecture, weights.architecture.generator
    is_shared = architecture.generator_sharing == "embeddings"
    tables = discriminator.encoder.embeddings if is_shared else None
    towers = TwoTowerModel(sizes, tables, dtype=policy)
    head = GeneratorPredictions(sizes, "cloze_predictions", policy)
    head.build((None, None, 2 * sizes.hidden_size))
    for variable in (*towers.weights, *head.weights):
        variable.assign(weights.arrays[variable.path])
    return towers, head
