"""The networks that generate, and what they share with the main encoder."""

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.layers import POLICIES
from electra_tf.model.modeling import BertModel
from electra_tf.model.shared_embeddings import TokenSharingEmbeddings
from electra_tf.model.two_tower import TwoTowerModel


def make_encoder(
    config: PretrainingConfig, vocab_size: int, main: BertModel | None
) -> BertModel:
    """Makes a generator that fills masks.

    Args:
      config: says how large, and what it shares.
      vocab_size: of the data.
      main: the encoder to share with; None where the generator comes first.

    Returns:
      The generator, built; the main encoder itself if they share all weights.
    """
    sharing, tables = config.model.generator_sharing, None
    bert = config.model.generator(vocab_size)
    if sharing == "all":
        return main
    if sharing == "embeddings":
        tables = main.embeddings
    if sharing == "token_embeddings":
        words = main.embeddings.word_embeddings
        tables = TokenSharingEmbeddings(bert, words)
    made = BertModel(
        bert,
        "generator",
        tables,
        is_packed=config.corpus.is_packed,
        dtype=POLICIES[config.training.precision],
    )
    made.build((None, None))
    return made


def make_towers(
    config: PretrainingConfig, vocab_size: int, main: BertModel
) -> TwoTowerModel:
    """Makes two towers; by default all read the same embeddings.

    Args:
      config: says how large, and what they share.
      vocab_size: of the data.
      main: the encoder to share with.
    """
    is_shared = config.model.generator_sharing == "embeddings"
    return TwoTowerModel(
        config.model.generator(vocab_size),
        main.embeddings if is_shared else None,
        is_packed=config.corpus.is_packed,
        dtype=POLICIES[config.training.precision],
    )
