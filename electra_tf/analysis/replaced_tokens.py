"""Replaces tokens of texts as in training, and runs the discriminator on them.

15 % of the tokens of a text are masked at random and replaced by samples of the
generator; the discriminator reads the result. A sample that equals the original
token counts as original. Without a generator, a masked token is replaced by a
random one with as many characters that likewise begins, or continues, a word.

Differs: in training the generator sees some of the chosen tokens unmasked
(`mask_token_prob`), a row may hold several texts, and a long text continues in
the next row; here it is cut.
"""

import collections
import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
import tensorflow as tf

from electra_tf.analysis.networks import ROWS_SPEC, ScoringNetworks, compiled
from electra_tf.analysis.scorer import Scorer
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data.answering import batches
from electra_tf.model.text_reader import TextReader
from electra_tf.model.tokenization import Vocabulary

MASK_PROB = 0.15
"""Share of the tokens that are masked."""

_BRACKETED = re.compile(r"\[\w+\]")


class ReplacedText(NamedTuple):
    """A text of n tokens, without [CLS] and [SEP], some of them replaced."""

    logits: np.ndarray
    is_replaced: np.ndarray
    is_masked: np.ndarray
    is_predicted: np.ndarray


class Replacer:
    """Replaces tokens of texts."""

    def __init__(
        self,
        networks: ScoringNetworks,
        *,
        max_seq_length: int,
        batch_size: int = 32,
        seed: int = 0,
    ) -> None:
        self._vocabulary = networks.vocabulary
        self._reader = TextReader(
            networks.vocabulary,
            max_seq_length=max_seq_length,
            **networks.tokenizer_options,
        )
        self._detect = networks.detect
        self._generator = networks.generator
        self._similar_tokens = SimilarTokenSampler(networks.vocabulary)
        self._batch_size = batch_size
        self._seed = seed

    @classmethod
    def for_scorer(cls, config: AnalysisConfig, scorer: Scorer) -> Self:
        """Makes a replacer that uses the networks of a scorer."""
        return cls(
            scorer.networks,
            max_seq_length=scorer.max_seq_length,
            batch_size=config.batch_size,
            seed=config.seed,
        )

    @property
    def has_generator(self) -> bool:
        """Whether a generator, and not chance, chooses the replacements."""
        return self._generator is not None

    @functools.cached_property
    def _predict(self) -> tf.types.experimental.ConcreteFunction:
        """A function of ids [B, L] and positions [B, N] to logits [B, N, V]."""

        def predict(ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
            inputs = {"input_ids": ids, "positions": positions}
            return self._generator(inputs)["logits"]

        return compiled(predict, ROWS_SPEC, ROWS_SPEC)

    def replace(self, texts: Sequence[str]) -> list[ReplacedText]:
        """Replaces tokens of texts."""
        found: dict[int, ReplacedText] = {}
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for numbers in batches(order, self._batch_size):
            ids = self._reader.read(tf.constant([texts[i] for i in numbers]))
            sizes = ids["input_mask"].numpy().sum(1) - 2  # [CLS], [SEP]
            rows = self._replace_rows(ids["input_ids"].numpy(), sizes, numbers)
            found |= dict(zip(numbers, rows, strict=True))
        return [found[i] for i in range(len(texts))]

    def _replace_rows(
        self, originals: np.ndarray, sizes: np.ndarray, numbers: Sequence[int]
    ) -> Iterator[ReplacedText]:
        """Yields the texts of a batch, int32 [B, L], with tokens replaced."""
        is_masked, uniform = np.zeros(originals.shape, bool), []
        for row, size, number in zip(is_masked, sizes, numbers, strict=True):
            random = np.random.default_rng([self._seed, number])
            count = min(size, max(1, round(MASK_PROB * size)))
            if count:
                chosen = random.choice(size, count, replace=False)
                row[1 + chosen] = True  # behind [CLS]
            uniform.append(random.random(count))
        replaced, is_predicted = originals.copy(), np.zeros_like(is_masked)
        if self.has_generator:
            replaced[is_masked], is_predicted[is_masked] = self._sample(
                originals, is_masked, uniform
            )
        else:
            replaced[is_masked] = self._similar_tokens.choose(
                originals[is_masked], np.concatenate(uniform)
            )
        logits = self._detect(replaced)["logits"]
        kinds = (logits, replaced != originals, is_masked, is_predicted)
        for row, size in enumerate(sizes):
            yield ReplacedText(*(kind[row, 1 : size + 1] for kind in kinds))

    def _sample(
        self,
        originals: np.ndarray,
        is_masked: np.ndarray,
        uniform: Sequence[np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns samples for masked positions, and which predictions hold."""
        counts = is_masked.sum(1, keepdims=True)
        is_used = np.arange(max(1, counts.max())) < counts  # [B, N]
        positions = np.zeros(is_used.shape, np.int32)
        positions[is_used] = np.nonzero(is_masked)[1]
        masked = np.where(is_masked, self._vocabulary.mask_id, originals)
        inputs = (tf.constant(x, tf.int32) for x in (masked, positions))
        logits = self._predict(*inputs).numpy()  # [B, N, V]
        rows = zip(logits, uniform, strict=True)
        found = np.concatenate([sample(x[: len(u)], u) for x, u in rows])
        return found, logits.argmax(-1)[is_used] == originals[is_masked]


def sample(logits: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Samples from softmax(logits) by inverting its cumulative sums."""
    weights = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    sums = np.cumsum(weights, -1)
    return (sums <= uniform[:, None] * sums[:, -1:]).sum(-1)


class SimilarTokenSampler:
    """Chooses random tokens that look like given ones."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._kinds = [
            (continues, len(vocabulary.surface(token)))
            for token, continues in enumerate(vocabulary.continues_word)
        ]
        self._tokens = collections.defaultdict(list)
        for token, kind in enumerate(self._kinds):
            if not _BRACKETED.fullmatch(vocabulary.tokens[token]):
                self._tokens[kind].append(token)

    def choose(self, tokens: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Returns a token of the same kind and length for each token."""
        chosen = []
        for token, share in zip(tokens, uniform, strict=True):
            similar = self._tokens[self._kinds[token]] or [token]
            chosen.append(similar[int(share * len(similar))])
        return np.array(chosen, np.int64)
