"""Analyses, and conversions of weights."""

import dataclasses

from electra_tf.util.errors import UserError
from electra_tf.util.flags import Checked, bounded, one_of, required, several

ANALYSES = (
    "calibration",
    "errors",
    "minimal_pairs",
    "pos_bias",
    "probes",
    "rerank",
)
"""Modules of `electra_tf.analysis` with `run(AnalysisConfig) -> Report`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnalysisConfig(Checked):
    """An analysis, its model and its text."""

    what: str = required(choices=ANALYSES)
    """Analysis to run. Required."""
    model: str = required()
    """Checkpoint of a run, of the original or of Hugging Face. Required."""
    generator: str = ""
    """Checkpoint of a masked language model. Default: the model's own."""
    twin: str = ""
    """probes: checkpoint of a second model to compare with."""
    vocab_file: str = ""
    """Vocabulary. Default: the one the checkpoint was trained with."""
    dev: tuple[str, ...] = several()
    """calibration, errors, probes, rerank: files or directories, none of them
    in --test, on which thresholds, temperatures and probes are fitted."""
    test: tuple[str, ...] = several(is_required=True)
    """Files or directories on which figures are computed. Required."""
    scores: tuple[str, ...] = ()
    """errors, minimal_pairs, rerank: scores to compare, of electric, two_tower,
    discriminator and mlm. Default: all that the model has."""
    max_examples: int = bounded(0, 0)
    """Maximum examples per file, sampled with the seed; 0 for all."""
    output_dir: str = ""
    """Directory for report.json, report.md and plots. Default: only print."""
    batch_size: int = bounded(32, 1)
    """Rows in a batch; no figure depends on it."""
    max_seq_length: int = bounded(0, 0)
    """Maximum tokens in a row; longer texts are scored in windows, cut or, by
    probes, left out. Default: as in training, or at most 512."""
    write_calibration: bool = False
    """calibration: store the temperature with the model, for score, exports."""
    precision: str = one_of("float32", "bfloat16")
    """Precision of the matrix products."""
    seed: int = bounded(0, 0)
    """Seed of all random choices."""
    num_resamples: int = bounded(1000, 100)
    """Bootstrap samples behind each 95 % interval."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertConfig(Checked):
    """Input, output and changes of a conversion."""

    input: str = required()
    """The checkpoint to read; its files tell the format. Required."""
    output: str = required()
    """A new or empty directory to write to. Required."""
    target_format: str = one_of("electra_tf", "tf1", "hf")
    """Format of the output."""
    network: str = one_of(
        "both", "discriminator", "generator", "corrector", "encoder"
    )
    """Networks to write: all, one, or the encoder without a head."""
    vocab_file: str = ""
    """Vocabulary. Default: the one the checkpoint was trained with."""
    new_vocab_file: str = ""
    """Vocabulary of the output; tokens in both keep their embeddings."""
    vocab_size: int | None = bounded(None, 1)
    """Rows of the word embeddings in the output. Default: by the vocabulary."""
    max_position_embeddings: int | None = bounded(None, 1)
    """Position embeddings in the output; new ones repeat the old."""
    num_hidden_layers: int | None = bounded(None, 1)
    """Lowest layers to write; needs --network=encoder. Default: all."""
    reset_step: bool = False
    """Write step 0: the schedule starts again; slots are kept."""
    slots: bool = True
    """Write Adam's slots, which are needed to resume training."""
    head: str = one_of(
        "auto",
        "sequence_classification",
        "token_classification",
        "question_answering",
    )
    """Kind of a fine-tuned head, for hf; auto detects the original's tasks."""
    num_attention_heads: int | None = bounded(None, 1)
    """Attention heads of the encoder, where no file of the input says it."""
    generator_num_attention_heads: int | None = bounded(None, 1)
    """Attention heads of the generator, where no file of the input says it."""
    seed: int = bounded(0, 0)
    """Seed of new embedding rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_hidden_layers and self.network != "encoder":
            raise UserError("num_hidden_layers needs --network=encoder.")
