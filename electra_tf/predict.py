r"""Predicts on new text with fine-tuned models.

python -m electra_tf.predict --model=DIR --text="a fine film"
python -m electra_tf.predict --model=DIR --input=in.txt --output=out.jsonl
head in.txt | python -m electra_tf.predict --model=DIR

DIR is the directory of a trial of run_finetuning, the directory `model` in it,
which suffices, or a sequence classifier of Hugging Face's.

The output is a line of JSON for each row: its "line" number, the "prediction",
and its details, such as the "probabilities" of the labels. In Python,
`electra_tf.Predictor` does the same.
"""

import dataclasses

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
class PredictConfig(Checked):
    """A model, and the texts to predict on."""

    model: str = required()
    """Directory of a trial, or the directory `model` in it. Required."""
    task: str = ""
    """Which task to predict, if the model has learnt several."""
    text: str | None = None
    """A text to predict on; of a pair, the first; or the question."""
    text_b: str | None = None
    """The second text of a pair, or the context of the question."""
    input: str = ""
    """A file to predict on, row by row: .txt with one text a line, .jsonl, .csv
    or .tsv; a custom task reads it like its training files, taggers also .conll
    and .conllu. May be compressed. Default: standard input."""
    input_format: str = one_of(
        "auto", "txt", "tsv", "jsonl", "csv", "conll", "conllu"
    )
    """Format of the input; auto: by the file's name, for standard input txt, or
    two texts with a tab between them if the task has pairs."""
    output: str = ""
    """File of JSON lines to write. Default: standard output."""
    skip_bad_rows: bool = False
    """Skip and count rows that cannot be read, instead of failing."""
    batch_size: int = bounded(64, 1)
    """Texts per batch; predictions do not depend on it."""
    precision: str = one_of("float32", "bfloat16")
    """Precision of the encoder's matrix products."""

    def __post_init__(self) -> None:
        super().__post_init__()
        has_input = self.input or self.input_format != "auto"
        if has_input and (self.text or self.text_b):
            raise UserError("Set --text or --input, not both.")
        if self.text_b and not self.text:
            raise UserError("--text_b needs --text.")


def main(config: PredictConfig) -> None:
    """Predicts on the texts that the configuration names."""
    from electra_tf.finetune.finetuned import Predictor

    console.keep_memory()
    predictor = Predictor(
        config.model,
        task=config.task,
        batch_size=config.batch_size,
        precision=config.precision,
    )
    spec = predictor.task.input_spec
    texts = [text for text in (config.text, config.text_b) if text]
    if texts:
        item = texts if len(texts) > 1 else texts[0]
        source = answering.of_items([item], spec)
    else:
        source = answering.of_file(
            config.input,
            config.input_format,
            spec,
            skip_bad_rows=config.skip_bad_rows,
        )
    blocks = predictor.blocks(source)
    answering.write_answers(blocks, source, config.output)


if __name__ == "__main__":
    run_command(main, PredictConfig)
