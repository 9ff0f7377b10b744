"""Texts with some tokens replaced, as in training, and what is said of them.

Of the tokens of a text 15 % are masked at random; the generator's samples
stand in their place, and the discriminator reads the result. A sample that
equals the original counts as original. Without a generator a random token
stands there: one that, as the original, begins a word or does not, and has as
many characters.

Differs: in training some of the chosen tokens are shown to the generator as
they are (`mask_token_prob`), a row may hold several texts, and a long text
goes on in the next row; here it is cut.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
import tensorflow as tf

from electra_tf.checkpoint import checkpoint_formats, loading
from electra_tf.checkpoint.weights import select
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.model.layers import POLICIES
from electra_tf.model.networks import ElectraDiscriminator, ElectraGenerator
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

MASK_PROB = 0.15

_GENERATOR = "generator"


class ReplacedText(NamedTuple):
    """A text with tokens replaced; n tokens without [CLS] and [SEP].

    Attributes:
      logits: float64 [n], the discriminator's; over 0 means replaced.
      is_replaced: bool [n], whether another token than the original is there.
      is_masked: bool [n], whether the generator has predicted the token.
      is_predicted: bool [n], whether the original was its likeliest token;
        false where it has predicted none.
    """

    logits: np.ndarray
    is_replaced: np.ndarray
    is_masked: np.ndarray
    is_predicted: np.ndarray


class _Choice(NamedTuple):
    """What is chosen at random in a row.

    Attributes:
      positions: int64 [k], of the masked tokens, ascending.
      uniform: float64 [k], in [0, 1).
    """

    positions: np.ndarray
    uniform: np.ndarray


class Replacer:
    """Replaces tokens of texts.

    Args:
      discriminator: reads the result.
      generator: fills masks, by the same vocabulary; None for random tokens.
      batch_size: texts at once.
      seed: of masks and samples; with the place of a text among all of them it
        determines both.
    """

    def __init__(
        self,
        discriminator: ElectraDiscriminator,
        generator: ElectraGenerator | None,
        *,
        batch_size: int = 32,
        seed: int = 0,
    ) -> None:
        self._read = discriminator.read
        self._vocabulary = discriminator.vocabulary
        self._discriminate = _compiled(discriminator)
        self._generate = _compiled(generator) if generator else None
        self._batch_size = batch_size
        self._seed = seed

    @classmethod
    def from_config(cls, config: AnalysisConfig) -> Self:
        """Makes one of the networks of an analysis.

        Raises:
          UserError: if a checkpoint cannot be read or has no such network, or
            the vocabularies differ.
        """
        weights = checkpoint_formats.read(
            config.model, vocab_file=config.vocab_file
        )
        options = {"dtype": POLICIES[config.precision]}
        if config.max_seq_length:
            options["max_seq_length"] = config.max_seq_length
        discriminator = loading.make(
            select(weights, "discriminator"), **options
        )
        generator = None
        if config.generator:
            weights = checkpoint_formats.read(config.generator)
        if config.generator or _GENERATOR in weights.networks:
            generator = loading.make(select(weights, _GENERATOR), **options)
            _check_vocabularies(discriminator, generator)
        return cls(
            discriminator,
            generator,
            batch_size=config.batch_size,
            seed=config.seed,
        )

    @property
    def has_generator(self) -> bool:
        """Whether samples are a generator's."""
        return self._generate is not None

    def replace(self, texts: Sequence[str]) -> list[ReplacedText]:
        """Replaces tokens of texts.

        Args:
          texts: what is too long for a row is cut.

        Returns:
          The texts, in order.
        """
        found: dict[int, ReplacedText] = {}
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), self._batch_size):
            numbers = order[start : start + self._batch_size]
            batch = tf.constant([texts[i] for i in numbers])
            ids = {name: x.numpy() for name, x in self._read(batch).items()}
            rows = self._replace_rows(ids, numbers)
            found |= dict(zip(numbers, rows, strict=True))
        return [found[i] for i in range(len(texts))]

    def _replace_rows(
        self, ids: dict[str, np.ndarray], numbers: Sequence[int]
    ) -> Iterable[ReplacedText]:
        """Yields the rows of a batch."""
        originals = ids["input_ids"]
        sizes = ids["input_mask"].sum(1) - 2
        choices = [
            _choose(size, self._seed, number)
            for size, number in zip(sizes, numbers, strict=True)
        ]
        samples, predicted = self._sample(ids, choices)
        replaced, masked = originals.copy(), np.zeros(originals.shape, bool)
        is_predicted = masked.copy()
        for row, choice in enumerate(choices):
            replaced[row, choice.positions] = samples[row]
            masked[row, choice.positions] = True
            is_predicted[row, choice.positions] = predicted[row]
        logits = self._discriminate({**ids, "input_ids": replaced}).numpy()
        kinds = (logits, replaced != originals, masked, is_predicted)
        for row, size in enumerate(sizes):
            yield ReplacedText(*(kind[row, 1 : size + 1] for kind in kinds))

    def _sample(
        self, ids: dict[str, np.ndarray], choices: Sequence[_Choice]
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Returns by row the samples, and whether the likeliest is right."""
        rows = list(zip(ids["input_ids"], choices, strict=True))
        originals = [row[choice.positions] for row, choice in rows]
        if self._generate is None:
            samples = [
                random_tokens(self._vocabulary, tokens, choice.uniform)
                for tokens, choice in zip(originals, choices, strict=True)
            ]
            return samples, [np.zeros(len(x), bool) for x in samples]
        masked = ids["input_ids"].copy()
        width = max(1, *(len(choice.positions) for choice in choices))
        positions = np.zeros((len(choices), width), np.int32)
        for row, choice in enumerate(choices):
            masked[row, choice.positions] = self._vocabulary.mask_id
            positions[row, : len(choice.positions)] = choice.positions
        seen = {**ids, "input_ids": masked, "positions": positions}
        logits = [
            row[: len(choice.positions)]
            for row, choice in zip(
                self._generate(seen).numpy(), choices, strict=True
            )
        ]
        samples = [
            sample(row, choice.uniform)
            for row, choice in zip(logits, choices, strict=True)
        ]
        likeliest = [row.argmax(-1) for row in logits]
        pairs = zip(likeliest, originals, strict=True)
        return samples, [found == right for found, right in pairs]


def _compiled(network: ElectraDiscriminator | ElectraGenerator) -> tf.function:
    """Returns a network's logits as a function of ids."""
    return tf.function(
        lambda ids: network(ids)["logits"],
        autograph=False,
        reduce_retracing=True,
    )


def _check_vocabularies(
    discriminator: ElectraDiscriminator, generator: ElectraGenerator
) -> None:
    if generator.vocabulary not in (None, discriminator.vocabulary):
        raise UserError(
            "The generator must have the discriminator's vocabulary. "
            f"Received: {generator.vocabulary.size:,} and "
            f"{discriminator.vocabulary.size:,} tokens that differ. Name "
            "another --generator, or none."
        )


def _choose(num_tokens: int, seed: int, number: int) -> _Choice:
    """Chooses tokens of a row to mask: 15 %, at least one if there is any."""
    random = np.random.default_rng([seed, number])
    size = min(num_tokens, max(1, round(MASK_PROB * num_tokens)))
    places = random.choice(num_tokens, size, replace=False) if size else []
    positions = 1 + np.sort(np.array(places, np.int64))  # behind [CLS]
    return _Choice(positions, random.random(size))


def sample(logits: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Samples from softmax(logits) by the inverse of its sums.

    Args:
      logits: float [k, V].
      uniform: float64 [k], in [0, 1).

    Returns:
      int64 [k].
    """
    weights = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    sums = np.cumsum(weights, -1)
    return (sums <= uniform[:, None] * sums[:, -1:]).sum(-1)


def random_tokens(
    vocabulary: Vocabulary, tokens: np.ndarray, uniform: np.ndarray
) -> np.ndarray:
    """Chooses tokens that look like others.

    Args:
      vocabulary: of the tokens.
      tokens: int [k].
      uniform: float64 [k], in [0, 1).

    Returns:
      int64 [k]: tokens that begin a word or do not, as `tokens`, and have as
      many characters.
    """
    starts = np.array(vocabulary.continues_word)
    lengths = np.array([len(vocabulary.surface(i)) for i in range(len(starts))])
    chosen = []
    for token, share in zip(tokens, uniform, strict=True):
        is_alike = starts == starts[token]
        alike = np.flatnonzero(is_alike & (lengths == lengths[token]))
        chosen.append(alike[int(share * len(alike))])
    return np.array(chosen, np.int64)
