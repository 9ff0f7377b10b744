"""Hidden states of words by layer, of networks with different tokenizers.

A word's state is that of its first word piece. Networks are compared word by
word, so their tokenizers need not agree.

Letters in shapes: B sentences, L tokens in a row, W words of all sentences, S
layers including the embeddings, H hidden.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.analysis import batches, loaded_networks
from electra_tf.analysis.representations.layers import MODEL, TWIN
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.model.networks import EncoderWithHead, complete_ids
from electra_tf.util.errors import UserError


class WordStates(NamedTuple):
    """States of the words of several sentences.

    Shapes: sentences [W], words [W], states [S, W, H].
    """

    sentences: np.ndarray
    words: np.ndarray
    states: list[np.ndarray]

    def select(self, chosen: np.ndarray | slice) -> "WordStates":
        """Returns some of the words.

        Shapes: chosen [W].
        """
        states = [x[:, chosen] for x in self.states]
        return WordStates(self.sentences[chosen], self.words[chosen], states)


def join(groups: Sequence[WordStates]) -> WordStates:
    """Concatenates groups of words; at least one, all of the same networks."""
    sentences, words, states = zip(*groups, strict=True)
    return WordStates(
        np.concatenate(sentences),
        np.concatenate(words),
        [np.concatenate(x, axis=1) for x in zip(*states, strict=True)],
    )


def load(config: AnalysisConfig) -> dict[str, EncoderWithHead]:
    """Loads the main network of a model, and of its twin if there is one."""
    paths = {MODEL: config.model, TWIN: config.twin}
    return {
        name: loaded_networks.load(
            path, config, prefers_own_vocabulary=name == TWIN
        )
        for name, path in paths.items()
        if path
    }


class LayerReader:
    """Computes the states of words in each layer of a network."""

    def __init__(self, network: EncoderWithHead) -> None:
        self._network = network
        self._vocabulary = network.reader.vocabulary
        self._max_pieces = network.reader.max_seq_length - 2  # [CLS], [SEP]
        # Concrete, as TensorFlow would warn of retracing for many checkpoints.
        self._forward = tf.function(
            self._states_at,
            input_signature=[batches.ROWS_SPEC] * 2,
            autograph=False,
        ).get_concrete_function()

    def pieces(self, sentences: Sequence[Sequence[str]]) -> list[list[list]]:
        """Splits words into word pieces."""
        words = list(itertools.chain.from_iterable(sentences))
        found = self._network.reader.tokenize(tf.constant(words)).to_list()
        unknown = [self._vocabulary.unk_id]
        each = (pieces or unknown for pieces in found)
        return [list(itertools.islice(each, len(x))) for x in sentences]

    def num_fitting(self, pieces: Sequence[Sequence[int]]) -> int:
        """Counts the words, given by their pieces, that fit in a row."""
        ends = np.cumsum([len(x) for x in pieces])
        return int(np.searchsorted(ends, self._max_pieces, side="right"))

    def read(self, pieces: Sequence[Sequence[Sequence[int]]]) -> np.ndarray:
        """Computes the states of words.

        Shapes: returns [S, W, H].
        """
        first, last = self._vocabulary.cls_id, self._vocabulary.sep_id
        rows, positions = [], []
        for number, sentence in enumerate(pieces):
            starts = np.cumsum([1, *map(len, sentence)])[:-1]
            positions += [(number, start) for start in starts]
            rows.append([first, *itertools.chain(*sentence), last])
        ids = tf.constant(batches.padded(rows))
        indices = tf.reshape(tf.constant(positions, tf.int32), (-1, 2))
        return self._forward(ids, indices).numpy()

    def _states_at(self, ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """Computes states at positions, int32 [W, 2]: row and column."""
        output = self._network.encoder(**complete_ids({"input_ids": ids}))
        layers = [output.embedding_output, *output.all_layers]
        return tf.stack([tf.gather_nd(x, positions) for x in layers])


def fitting(
    readers: Sequence[LayerReader],
    versions: Sequence[Sequence[Sequence[str]]],
) -> np.ndarray:
    """Finds the sentences of which all versions fit in a row of every
    network."""
    flat = [words for each in versions for words in each]
    fits = np.ones(len(flat), bool)
    for reader in readers:
        fits &= [
            reader.num_fitting(pieces) == len(pieces)
            for pieces in reader.pieces(flat)
        ]
    found = np.flatnonzero(fits.reshape(len(versions), -1).all(1))
    if not found.size:
        raise UserError(
            "Sentences must fit in a row of every model. Received: none of "
            f"{len(versions):,} fits. Set a greater --max_seq_length."
        )
    return found


def read(
    readers: Sequence[LayerReader],
    sentences: Sequence[Sequence[str]],
    *,
    batch_size: int,
    group_size: int = 128,
) -> Iterator[WordStates]:
    """Computes the states of the same words in several networks."""
    for first in range(0, len(sentences), group_size):
        group = sentences[first : first + group_size]
        pieces = [reader.pieces(group) for reader in readers]
        sizes = [
            min(r.num_fitting(x) for r, x in zip(readers, each, strict=True))
            for each in zip(*pieces, strict=True)
        ]
        states = [
            _in_batches(reader, of_one, sizes, batch_size)
            for reader, of_one in zip(readers, pieces, strict=True)
        ]
        numbers = np.repeat(first + np.arange(len(group)), sizes)
        words = np.concatenate([np.arange(size) for size in sizes])
        yield WordStates(numbers, words, states)


def _in_batches(
    reader: LayerReader,
    pieces: Sequence[Sequence[Sequence[int]]],
    sizes: Sequence[int],
    batch_size: int,
) -> np.ndarray:
    """Computes the states of the first `sizes` words, [S, W, H]."""
    cut = [x[:size] for x, size in zip(pieces, sizes, strict=True)]
    lengths = [sum(map(len, x)) for x in cut]
    found = [np.empty(0)] * len(cut)
    for batch in batches.by_length(lengths, batch_size):
        states = reader.read([cut[i] for i in batch])
        ends = np.cumsum([sizes[i] for i in batch])[:-1]
        for i, part in zip(batch, np.split(states, ends, axis=1), strict=True):
            found[i] = part
    return np.concatenate(found, axis=1)
