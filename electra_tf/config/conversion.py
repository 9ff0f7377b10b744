"""The configuration of a conversion of weights; needs no TensorFlow."""

import dataclasses

from electra_tf.util.config_fields import Checked, bounded, one_of, required
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertConfig(Checked):
    """Input, output and changes of a conversion."""

    input: str = required("be a path")
    """The checkpoint to read. Required."""

    output: str = required("be a path")
    """A new or empty directory to write to, or one in which a conversion was
    killed, whose files are removed. Required."""

    source_format: str = one_of("auto", "tf1", "hf", "electra_tf")
    """Format of the input; auto recognizes it by the files."""

    target_format: str = one_of("electra_tf", "tf1", "hf")
    """Format of the output."""

    network: str = one_of(
        "both", "discriminator", "generator", "corrector", "encoder"
    )
    """Networks to write: both (all that there are), a single one, or the
    encoder without a head. The corrector of an objective that predicts words is
    written as a masked language model; a main encoder that has no head, as that
    of mc_bert, counts as the discriminator."""

    vocab_file: str = ""
    """Vocabulary of the input. Default: the one beside it or, for a run, the
    one it was trained with."""

    new_vocab_file: str = ""
    """Vocabulary of the output; tokens that are in both vocabularies keep their
    embeddings, so that of the input must be known."""

    vocab_size: int | None = bounded("at least 1", None)
    """Rows of the word embeddings in the output. Default: the size of the new
    vocabulary, or that of the input."""

    max_position_embeddings: int | None = bounded("at least 1", None)
    """Position embeddings in the output, the maximum tokens of a row; new ones
    repeat the old. Default: as in the input."""

    num_hidden_layers: int | None = bounded("at least 1", None)
    """Layers in the output, the lowest of the input; needs --network=encoder.
    Default: all."""

    reset_step: bool = False
    """Write step 0, so that the learning rate schedule starts again; Adam's
    slots are kept."""

    slots: bool = True
    """Write Adam's slots, which are needed to resume training."""

    head: str = one_of(
        "auto",
        "sequence_classification",
        "token_classification",
        "question_answering",
    )
    """Kind of a fine-tuned head, for hf; auto detects the original's tasks."""

    num_attention_heads: int | None = bounded("at least 1", None)
    """Attention heads in each layer of the encoder. Needed where no file of the
    input says it; must be the number in the file otherwise."""

    generator_num_attention_heads: int | None = bounded("at least 1", None)
    """Attention heads in each layer of the generator. Needed where no file of
    the input says it; must be the number in the file otherwise."""

    seed: int = bounded("at least 0", 0)
    """Seed of new embedding rows."""

    @property
    def changes_outputs(self) -> bool:
        """Whether the outputs differ from those of the input's networks."""
        new_sizes = self.max_position_embeddings or self.num_hidden_layers
        new_words = self.new_vocab_file or self.vocab_size
        return bool(new_sizes or new_words) or self.network == "encoder"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_hidden_layers and self.network != "encoder":
            raise UserError(
                "`num_hidden_layers` needs an encoder without a head, as a "
                "head was trained on the states of the last layer. Received: "
                f"network={self.network}. Set --network=encoder."
            )
