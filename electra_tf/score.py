r"""Scores every token of texts, with any checkpoint.

python -m electra_tf.score --model=DIR --text="the chef ate the meal" --show
python -m electra_tf.score --model=DIR --input=in.txt --output=out.jsonl
head in.txt | python -m electra_tf.score --model=DIR --scores=mlm

DIR is a checkpoint of a run, of the original code or of Hugging Face.
docs/analysis.md says what each score is and which models have it.

The output is a line of JSON for each row: its "line" number, the "text", its
"scores" (total and means, nats), and its "tokens" with their offsets in the
text, in characters and in UTF-8 bytes. In Python, `electra_tf.Scorer` does the
same.
"""

import dataclasses
import itertools
import sys
from collections.abc import Iterator
from typing import Any

from electra_tf.data import answering
from electra_tf.util import console
from electra_tf.util.errors import UserError
from electra_tf.util.flags import (
    Checked,
    bounded,
    one_of,
    required,
    run_command,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreConfig(Checked):
    """A model, and the texts to score."""

    model: str = required()
    """Checkpoint of a run, of the original code, or of Hugging Face.
    Required."""
    generator: str = ""
    """Checkpoint of a masked language model, for mlm scores and repairs.
    Default: the model's own generator."""
    vocab_file: str = ""
    """Vocabulary. Default: the one the checkpoint was trained with."""
    text: str | None = None
    """A text to score."""
    input: str = ""
    """A file to score row by row: .txt with one text a line; .jsonl, .csv or
    .tsv with a text in `text_field`. May be compressed. Default: standard
    input."""
    input_format: str = one_of("auto", "txt", "jsonl", "csv", "tsv")
    """Format of the input; auto: by the file's name, txt for standard input."""
    text_field: str = "text"
    """Field of a JSON object, or column, that holds the text."""
    output: str = ""
    """File of JSON lines to write. Default: standard output."""
    scores: tuple[str, ...] = ()
    """Scores to compute: electric, two_tower, discriminator, mlm. Default: all
    that take one forward pass; mlm takes one for each token."""
    num_repairs: int = bounded(0, 0)
    """Replacements to suggest for each token, the likeliest first; takes a
    forward pass for each token."""
    show: bool = False
    """Print a table for each text: tokens, suggestions for flagged tokens,
    verdict."""
    skip_bad_rows: bool = False
    """Skip and count rows that cannot be read, instead of failing."""
    batch_size: int = bounded(32, 1)
    """Rows per batch; scores do not depend on it."""
    max_seq_length: int = bounded(0, 0)
    """Tokens in a row; longer texts are read in overlapping windows. Default:
    as in training, or at most 512."""
    precision: str = one_of("float32", "bfloat16")
    """Precision of the matrix products."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input and self.text:
            raise UserError("Set --text or --input, not both.")


def main(config: ScoreConfig) -> None:
    """Scores the texts that the configuration names."""
    console.keep_memory()
    from electra_tf.analysis import scores as score_output
    from electra_tf.analysis.scorer import Scorer

    spec = answering.InputSpec((config.text_field,))
    if config.text:
        source = answering.of_items([config.text], spec)
    else:
        source = answering.of_file(
            config.input,
            config.input_format,
            spec,
            skip_bad_rows=config.skip_bad_rows,
        )
    scorer = Scorer.from_config(config)
    if fit := scorer.calibration:  # standard output is for the scores
        sys.stderr.write(
            "P(replaced) is calibrated by the temperature "
            f"{fit.temperature:.3f}, fitted on {fit.fitted_on}.\n"
        )
    scores = config.scores or scorer.default_scores
    num_repairs = config.num_repairs
    if config.show and "mlm" in scorer.scores:
        num_repairs = max(num_repairs, 1)

    def blocks() -> Iterator[list[tuple[int, Any]]]:
        rows, again = itertools.tee(source.rows)
        texts = (text for _, (text,) in rows)
        for answer in scorer.score(
            texts, scores=scores, num_repairs=num_repairs
        ):
            number, _ = next(again)
            yield [(number, answer)]

    def to_text(number: int, answer: Any) -> str:  # noqa: ANN401 (TextScores)
        if config.show:
            return score_output.table(answer) + "\n"
        return answering.json_line(number, score_output.to_json(answer, scores))

    answering.write_answers(blocks(), source, config.output, to_text)


if __name__ == "__main__":
    run_command(main, ScoreConfig)
