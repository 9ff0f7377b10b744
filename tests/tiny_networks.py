"""Networks of a few thousand weights that read text, and their checkpoints."""

from electra_tf.checkpoint import loading
from electra_tf.config.model import BertConfig
from electra_tf.model.networks import ElectraDiscriminator, ElectraGenerator
from electra_tf.model.tokenization import Vocabulary

WORDS = ("good", "bad", "film", "plot", "very", "the", "a", "is", "was", "it")
VOCABULARY = Vocabulary(
    ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, ".", "##s", "##ly")
)
PERMUTED = Vocabulary(VOCABULARY.tokens[:5] + VOCABULARY.tokens[:4:-1])
CONFIG = BertConfig(
    vocab_size=VOCABULARY.size,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    embedding_size=8,
    max_position_embeddings=32,
    initializer_range=0.3,
)


def discriminator(vocabulary=VOCABULARY, **options):
    return ElectraDiscriminator(CONFIG, vocabulary, **options)


def generator(vocabulary=VOCABULARY, **options):
    return ElectraGenerator(CONFIG, vocabulary, **options)


def save(network, directory):
    """Writes a checkpoint and returns its path."""
    weights = loading.weights_of(network)
    loading.write(str(directory), weights, "electra_tf")
    return str(directory)
