"""Replaces tokens of texts as in training, and runs the discriminator on them.

15 % of the tokens of a text are masked at random and replaced by samples of the
generator. A sample that equals the original token counts as original.

Differs: in training the generator sees some of the chosen tokens unmasked
(`mask_token_prob`), a row may hold several texts, and a long text continues in
the next row; here it is cut.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.analysis.networks import ROWS_SPEC
from electra_tf.analysis.scorer import Scorer
from electra_tf.data.packing import batches
from electra_tf.model.text_reader import TextReader

MASK_PROB = 0.15


class ReplacedTokens(NamedTuple):
    """Tokens of texts, without [CLS] and [SEP], some replaced; each [n]."""

    logits: np.ndarray
    is_replaced: np.ndarray
    is_masked: np.ndarray
    is_predicted: np.ndarray
    text: np.ndarray


def replace_tokens(
    scorer: Scorer, texts: Sequence[str], seed: int
) -> ReplacedTokens:
    networks, vocabulary = scorer.networks, scorer.networks.vocabulary
    reader = TextReader(
        vocabulary,
        max_seq_length=scorer.max_seq_length,
        **networks.tokenizer_options,
    )

    @tf.function(input_signature=[ROWS_SPEC] * 2, autograph=False)
    def predict(ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        inputs = {"input_ids": ids, "positions": positions}
        return networks.generator(inputs)["logits"]  # [B, N, V]

    of_text: dict[int, list[np.ndarray]] = {}
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for numbers in batches(order, scorer.batch_size):
        ids = reader.read(tf.constant([texts[i] for i in numbers]))
        originals = ids["input_ids"].numpy()  # [B, L]
        sizes = ids["input_mask"].numpy().sum(1) - 2  # [CLS], [SEP]
        is_masked, uniform = np.zeros(originals.shape, bool), []
        for row, size, number in zip(is_masked, sizes, numbers, strict=True):
            random = np.random.default_rng([seed, number])
            count = min(size, max(1, round(MASK_PROB * size)))
            if count:
                chosen = random.choice(size, count, replace=False)
                row[1 + chosen] = True  # behind [CLS]
            uniform.append(random.random(count))
        counts = is_masked.sum(1, keepdims=True)
        is_used = np.arange(max(1, counts.max())) < counts  # [B, N]
        positions = np.zeros(is_used.shape, np.int32)
        positions[is_used] = np.nonzero(is_masked)[1]
        masked = np.where(is_masked, vocabulary.mask_id, originals)
        logits = predict(*map(tf.constant, (masked, positions))).numpy()
        logits = logits[is_used]  # [masked tokens, V]
        is_predicted, replaced = np.zeros_like(is_masked), originals.copy()
        is_predicted[is_masked] = logits.argmax(-1) == originals[is_masked]
        replaced[is_masked] = sample(logits, np.concatenate(uniform))
        logits = networks.detect(replaced)["logits"]
        kinds = (logits, replaced != originals, is_masked, is_predicted)
        for row, (number, size) in enumerate(zip(numbers, sizes, strict=True)):
            of_text[number] = [x[row, 1 : size + 1] for x in kinds]
            of_text[number].append(np.full(size, number))
    columns = zip(*(of_text[i] for i in range(len(texts))), strict=True)
    return ReplacedTokens(*map(np.concatenate, columns))


def sample(logits: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Samples from softmax(logits) by inverting its cumulative sums."""
    weights = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    sums = np.cumsum(weights, -1)
    return (sums <= uniform[:, None] * sums[:, -1:]).sum(-1)
