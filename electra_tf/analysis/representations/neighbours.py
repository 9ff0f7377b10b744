"""Nearest neighbours of words in the embedding tables of networks."""

from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf.analysis.representations import anisotropy
from electra_tf.model.networks import EncoderWithHead
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

_NUM_NEIGHBOURS = 5


def of_words(
    networks: Mapping[str, EncoderWithHead], words: Sequence[str]
) -> dict[str, dict[str, list[tuple[str, float]]]]:
    """Lists the tokens with the greatest cosine to each word."""
    found: dict[str, dict[str, list[tuple[str, float]]]] = {}
    for name, network in networks.items():
        vocabulary = network.reader.vocabulary
        table = network.encoder.embeddings.word_embeddings.numpy()
        units = anisotropy.unit_vectors(table)
        candidates = _word_tokens(vocabulary)
        for word in words:
            token = _single_token(network, name, word)
            others = np.array([x for x in candidates if x != token])
            cosines = units[others] @ units[token]
            nearest = np.argsort(-cosines, kind="stable")[:_NUM_NEIGHBOURS]
            found.setdefault(word, {})[name] = [
                (vocabulary.tokens[others[i]], float(cosines[i]))
                for i in nearest
            ]
    return found


def _word_tokens(vocabulary: Vocabulary) -> list[int]:
    """Returns the tokens that are not special tokens or placeholders."""
    tokens = enumerate(vocabulary.tokens)
    return [i for i, x in tokens if not (x[:1] == "[" and x[-1:] == "]")]


def _single_token(network: EncoderWithHead, name: str, word: str) -> int:
    """Returns the token of a word."""
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
