"""The configuration of an analysis: its kind, model and text."""

import dataclasses

from electra_tf.util.config_fields import Checked, bounded, one_of, required
from electra_tf.util.errors import UserError

_HERE = "electra_tf.analysis."

ANALYSES: dict[str, str] = {
    "calibration": _HERE + "calibration:run",
    "acceptability": _HERE + "representations.acceptability:run",
    "copies": _HERE + "representations.copies:run",
    "errors": _HERE + "error_detection:run",
    "minimal_pairs": _HERE + "minimal_pairs:run",
    "pos_bias": _HERE + "pos_bias:run",
    "representations": _HERE + "representations.comparison:run",
    "rerank": _HERE + "rerank:run",
}
"""Name -> function of the analysis, as "module:function". It takes an
`AnalysisConfig` and returns a `Report`."""

_READ_BY: dict[str, tuple[str, ...]] = {
    "generator": (
        *("calibration", "errors", "minimal_pairs", "pos_bias", "rerank"),
    ),
    "twin": ("acceptability", "copies", "representations"),
    "dev": (
        *("acceptability", "calibration", "copies", "errors"),
        *("representations", "rerank"),
    ),
    "scores": ("errors", "minimal_pairs", "rerank"),
    "words": ("representations",),
    "write_calibration": ("calibration",),
}
"""Field -> the analyses that read it; the others refuse it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnalysisConfig(Checked):
    """An analysis, its model and its text."""

    what: str = required("name an analysis", choices=ANALYSES)
    """Analysis to run. Required."""

    model: str = required("be a checkpoint")
    """Checkpoint of the model: of a run, of the original, or a Hugging Face
    directory, as for convert_checkpoint. Required."""

    generator: str = ""
    """Checkpoint of a masked language model. Default: the model's own
    generator."""

    twin: str = ""
    """acceptability, copies, representations: checkpoint of a second
    model to compare with."""

    vocab_file: str = ""
    """Vocabulary of the model. Default: the one beside the checkpoint. A twin
    uses it only if none is beside it."""

    dev: tuple[str, ...] = ()
    """Files or directories on which thresholds, weights and temperatures are
    tuned."""

    test: tuple[str, ...] = required("name files", ())
    """Files or directories on which the reported figures are computed.
    Required."""

    scores: tuple[str, ...] = ()
    """Scores to compare: electric, two_tower, discriminator, mlm. Default: all
    that the model can compute. mlm takes a forward pass for each token."""

    max_examples: int = bounded("at least 0", 0)
    """Maximum examples per file, sampled with the seed; 0 for all."""

    output_dir: str = ""
    """Directory for report.json, report.md and plots. Default: the table is
    printed, and nothing is written."""

    words: tuple[str, ...] = ()
    """representations: words whose nearest neighbours in the embedding tables
    are listed; each must be a single word piece."""

    all_checkpoints: bool = False
    """Analyse every kept checkpoint of a run, and plot the main figures against
    training FLOPs."""

    batch_size: int = bounded("at least 1", 32)
    """Rows in a batch; no figure depends on it."""

    max_seq_length: int = bounded("at least 0", 0)
    """Maximum tokens in a row. Longer texts are scored in overlapping windows
    (errors, minimal_pairs, rerank, human errors of calibration), lose their
    last words (representations), are left out with all their versions
    (acceptability, copies), or are truncated (pos_bias, replaced
    tokens of calibration). Default: that of the training, or at most 512 where
    it is not known."""

    write_calibration: bool = False
    """calibration: store the fitted temperature beside the model, where score
    and exports find it: the one fitted to human errors if dev and test texts
    are labelled with them, else the one fitted to replaced tokens."""

    precision: str = one_of("float32", "bfloat16")
    """Precision of the matrix products."""

    seed: int = bounded("at least 0", 0)
    """Seed of all random choices."""

    num_resamples: int = bounded("at least 100", 1000)
    """Bootstrap samples behind each 95 % interval."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, readers in _READ_BY.items():
            if getattr(self, name) and self.what not in readers:
                raise UserError(
                    f"`{name}` is read only by --what={', '.join(readers)}. "
                    f"Received: --what={self.what}. Leave --{name} out."
                )
        if len(set(self.scores)) < len(self.scores):
            raise UserError(
                "`scores` must name each score once. Received: "
                f"{', '.join(self.scores)}. Leave one out."
            )
        if self.write_calibration and self.all_checkpoints:
            raise UserError(
                "`write_calibration` must be given a single checkpoint, beside "
                "which the temperature is stored. Received: --all_checkpoints. "
                "Leave one out."
            )
