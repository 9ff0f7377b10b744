"""Nearest neighbours of words in the embedding tables of networks."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.analysis.representations import anisotropy
from electra_tf.model.networks import EncoderWithHead
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

_COUNT = 5


class Neighbour(NamedTuple):
    """A token near another.

    Attributes:
      token: id.
      cosine: between their vectors.
    """

    token: int
    cosine: float


def nearest(
    table: np.ndarray, tokens: Sequence[int], token: int, *, count: int
) -> list[Neighbour]:
    """Finds the tokens whose vectors have the greatest cosine with one's.

    Args:
      table: [V, E].
      tokens: ids of those that can be found.
      token: id of the one whose neighbours are sought; never found itself.
      count: of neighbours, at most.

    Returns:
      The nearest first.
    """
    others = np.array([x for x in tokens if x != token])
    units = anisotropy.unit_vectors(table)
    cosines = units[others] @ units[token]
    order = np.argsort(-cosines, kind="stable")[:count]
    return [Neighbour(int(others[i]), float(cosines[i])) for i in order]


def of_words(
    networks: Mapping[str, EncoderWithHead], words: Sequence[str]
) -> dict[str, dict[str, list[tuple[str, float]]]]:
    """Lists the tokens nearest to words.

    Args:
      networks: name -> network with a vocabulary.
      words: each of one word piece.

    Returns:
      Word -> network -> tokens and their cosines, the nearest first.

    Raises:
      UserError: if a word is several pieces, or unknown.
    """
    found: dict[str, dict[str, list[tuple[str, float]]]] = {}
    for name, network in networks.items():
        vocabulary = network.reader.vocabulary
        table = network.encoder.embeddings.word_embeddings.numpy()
        candidates = _ordinary(vocabulary)
        for word in words:
            near = nearest(
                *(table, candidates, _token(network, name, word)),
                count=_COUNT,
            )
            found.setdefault(word, {})[name] = [
                (vocabulary.tokens[x.token], x.cosine) for x in near
            ]
    return found


def _ordinary(vocabulary: Vocabulary) -> list[int]:
    """Returns the tokens that are no special ones or placeholders."""
    tokens = enumerate(vocabulary.tokens)
    return [i for i, x in tokens if not (x[:1] == "[" and x[-1:] == "]")]


def _token(network: EncoderWithHead, name: str, word: str) -> int:
    """Returns the one token that a word is.

    Raises:
      UserError: if it is several, or unknown.
    """
    vocabulary = network.reader.vocabulary
    tokens = network.reader.tokenize([word]).to_list()[0]
    if len(tokens) != 1 or tokens[0] == vocabulary.unk_id:
        pieces = " ".join(vocabulary.tokens[token] for token in tokens)
        raise UserError(
            "`words` must each be one word piece. Received: "
            f"{word!r}, which is {pieces or 'nothing'!r} in the vocabulary of "
            f"the {name}. Name a more frequent word."
        )
    return tokens[0]
