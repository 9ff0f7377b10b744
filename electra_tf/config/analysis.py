"""Which analysis to make, of which model, on which text."""

import dataclasses

from electra_tf.util.config_fields import Checked, bounded, one_of, required
from electra_tf.util.errors import UserError

_HERE = "electra_tf.analysis."

ANALYSES: dict[str, str] = {
    "calibration": _HERE + "calibration:run",
    "acceptability": _HERE + "representations.acceptability:run",
    "errors": _HERE + "errors:run",
    "minimal_pairs": _HERE + "minimal_pairs:run",
    "pos_bias": _HERE + "pos_bias:run",
    "prompts": _HERE + "prompts.classification:run",
    "representations": _HERE + "representations.comparison:run",
    "rerank": _HERE + "rerank:run",
}
"""Name -> its function, as "module:function". It takes an `AnalysisConfig` and
returns a `Report`."""

_READ_BY: dict[str, tuple[str, ...]] = {
    "generator": (
        *("calibration", "errors", "minimal_pairs", "pos_bias", "prompts"),
        "rerank",
    ),
    "twin": ("acceptability", "prompts", "representations"),
    "dev": (
        *("acceptability", "calibration", "errors", "prompts"),
        *("representations", "rerank"),
    ),
    "scores": ("errors", "minimal_pairs", "prompts", "rerank"),
    "words": ("representations",),
    "templates": ("prompts",),
    "shots": ("prompts",),
    "write_calibration": ("calibration",),
}
"""Field -> the analyses that read it; the others refuse it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnalysisConfig(Checked):
    """An analysis, its model and its text."""

    what: str = one_of(*ANALYSES)
    """Which analysis."""

    model: str = required("be a checkpoint")
    """Checkpoint of the model: of a run, of the original's, or of Hugging
    Face's, as convert_checkpoint takes it. Required."""

    generator: str = ""
    """Checkpoint of a network that fills masks. Default: the model's own."""

    twin: str = ""
    """Of acceptability, prompts and representations: checkpoint of a second
    model."""

    vocab_file: str = ""
    """Vocabulary. Default: the one beside the checkpoint."""

    dev: tuple[str, ...] = ()
    """Files or directories that thresholds, weights and temperatures are tuned
    on."""

    test: tuple[str, ...] = required("name files", ())
    """Files or directories that the figures are of. Required."""

    scores: tuple[str, ...] = ()
    """Scores to compare: electric, two_tower, discriminator, mlm. Default: all
    that the model can give; mlm takes a pass for each token."""

    max_examples: int = bounded("at least 0", 0)
    """Examples of each file, chosen by the seed; 0 for all."""

    output_dir: str = ""
    """Where report.json, report.md and plots go. Default: the table is
    printed, and nothing is written."""

    words: tuple[str, ...] = ()
    """Of representations: words whose nearest neighbours in the embedding
    tables are listed; each a single word piece."""

    templates: str = ""
    """Of prompts: a file of templates and label words, as
    configs/prompts/sst2.cfg. Required there."""

    shots: int = bounded("at least 0", 0)
    """Of prompts: examples of each class, drawn from --dev, that a classifier
    over the scores of the label words learns from; 0 for none."""

    all_checkpoints: bool = False
    """Analyse every kept checkpoint of a run, and draw the main figures over
    its FLOPs."""

    batch_size: int = bounded("at least 1", 32)
    """Rows at once; no figure depends on it."""

    max_seq_length: int = bounded("at least 0", 0)
    """Tokens of a row. What is longer is scored in windows that overlap
    (errors, minimal_pairs, rerank, human errors of calibration); its last words
    are left out (representations), its pair is (acceptability), or it is cut
    (prompts, pos_bias, replaced tokens of calibration). Default: as many as in
    training, at most 512 where that is not known."""

    write_calibration: bool = False
    """Of calibration: keep the fitted temperature beside the model, where score
    and exports find it: that of human errors if the dev texts have such labels,
    else that of replaced tokens."""

    precision: str = one_of("float32", "bfloat16")
    """Of the matrix products."""

    seed: int = bounded("at least 0", 0)
    """Of all that is chosen at random."""

    num_resamples: int = bounded("at least 100", 1000)
    """Bootstrap samples behind each 95 % interval."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, readers in _READ_BY.items():
            if getattr(self, name) and self.what not in readers:
                raise UserError(
                    f"`{name}` is read by --what={', '.join(readers)} alone. "
                    f"Received: --what={self.what}. Leave --{name} out."
                )
        if len(set(self.scores)) < len(self.scores):
            raise UserError(
                "`scores` must name each score once. Received: "
                f"{', '.join(self.scores)}. Leave one out."
            )
        if self.what == "prompts" and self.dev and not self.shots:
            raise UserError(
                "`dev` of prompts holds the examples of --shots. Received: "
                "--shots=0. Set --shots, or leave --dev out."
            )
        if self.write_calibration and self.all_checkpoints:
            raise UserError(
                "`write_calibration` is of one checkpoint, beside which the "
                "temperature is kept. Received: --all_checkpoints. Leave one "
                "out."
            )
