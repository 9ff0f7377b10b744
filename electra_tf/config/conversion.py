"""The configuration of a conversion of weights; needs no TensorFlow."""

import dataclasses

from electra_tf.util.config_fields import Checked, bounded, one_of, required


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertConfig(Checked):
    """Input, output and changes of a conversion."""

    input: str = required("be a path")
    """The checkpoint to read. Required."""

    output: str = required("be a path")
    """A new or empty directory to write to. Required."""

    source_format: str = one_of("auto", "tf1", "hf", "electra_tf")
    """Format of the input; auto recognizes it by the files."""

    target_format: str = one_of("electra_tf", "tf1", "hf")
    """Format of the output."""

    network: str = one_of(
        "both", "discriminator", "generator", "corrector", "encoder"
    )
    """Networks to write: both, one that stands alone, or the main encoder
    without a head. The corrector of an objective that predicts words becomes a
    masked language model."""

    vocab_file: str = ""
    """Vocabulary of the input. Default: vocab.txt beside it."""

    new_vocab_file: str = ""
    """Vocabulary of the output: words that both have keep their rows."""

    vocab_size: int | None = bounded("at least 1", None)
    """Rows of the word embeddings in the output. Default: as many as the
    new vocabulary has words, or as the input has."""

    max_position_embeddings: int | None = bounded("at least 1", None)
    """Rows of the position embeddings in the output, the longest row it can
    read; new ones repeat the old. Default: as the input has."""

    reset_step: bool = False
    """Write step 0, so that a schedule starts anew; slots stay."""

    slots: bool = True
    """Write Adam's slots, which training needs to go on."""

    head: str = one_of(
        "auto",
        "sequence_classification",
        "token_classification",
        "question_answering",
    )
    """Kind of a fine-tuned head, for hf; auto knows the original's tasks."""

    num_attention_heads: int | None = bounded("at least 1", None)
    """Attention heads in each layer of the encoder, where no file says it."""

    generator_num_attention_heads: int | None = bounded("at least 1", None)
    """Attention heads in each layer of the generator, likewise."""

    seed: int = 0
    """Seed of new rows."""
