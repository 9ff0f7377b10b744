r"""Answers about new text with a fine-tuned model, with several, or by prompts.

python -m electra_tf.predict --model=DIR --text="a fine film"
python -m electra_tf.predict --model=DIR --input=in.txt --output=out.jsonl
head in.txt | python -m electra_tf.predict --model=DIR,DIR2,DIR3

DIR is the directory of a trial of run_finetuning, or the directory `model` in
it, which is all that is needed. Several are an ensemble: probabilities and
values are averaged.

python -m electra_tf.predict --model=CHECKPOINT \
  --templates=configs/prompts/sst2.cfg --text="a fine film"

takes a checkpoint that was not fine-tuned: the class is the one whose word fits
best into the text, or what a regression over the words' scores has learnt from
--examples.

Each row is answered by a line of JSON: the number of its "line", the
"prediction", and what belongs to it, as the "probabilities" of labels. In
Python, `electra_tf.Predictor` and `electra_tf.PromptPredictor` do the same.
"""

import dataclasses

from electra_tf.data import answering
from electra_tf.data.answering import Answerer
from electra_tf.data.formats import inputs
from electra_tf.util import config_flags, console, memory
from electra_tf.util.config_fields import one_of, require, require_choices
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictConfig:
    """A model, and what it answers."""

    model: str = ""
    """Directory of a trial, or the directory `model` in it; several with
    commas between are an ensemble. With --templates a checkpoint, as analyze
    takes it. Required."""

    task: str = ""
    """The task, of a model that has learnt several."""

    templates: str = ""
    """A file of templates and label words, as configs/prompts/sst2.cfg, to ask
    a checkpoint that was not fine-tuned."""

    examples: str = ""
    """With --templates: labelled examples, .tsv, .csv or .jsonl, all of which
    are learnt from. Default: the label words alone tell."""

    score: str = one_of("", "discriminator", "mlm")
    """With --templates: of the label words. Default: the discriminator's, or
    mlm of a model that has none."""

    text: str = ""
    """A text to answer about; the first of a pair, or the question."""

    text_b: str = ""
    """The second of a pair, or the context of the question."""

    input: str = ""
    """A file to answer row by row: .txt with a text a line; .jsonl, .csv or
    .tsv, of a custom task in the way that its training files were read,
    header, delimiter and columns alike; else with the inputs as fields or named
    columns, .tsv also as in GLUE or without names; of models that tag also
    .conll and .conllu. May be compressed. Default: standard input, where there
    is no --text."""

    input_format: str = one_of(
        "auto", "txt", "tsv", "jsonl", "csv", "conll", "conllu"
    )
    """Format of the input; auto takes it from the file's name, and of standard
    input takes a text a line or, with two texts a row, a tab between them. A
    .txt has a text a line for models that tag, too: conll is a word a line."""

    output: str = ""
    """The file to write, in JSON lines. Default: standard output."""

    skip_bad_rows: bool = False
    """Leave out rows that cannot be read, and count them."""

    batch_size: int = 64
    """Texts at once; no answer depends on it."""

    precision: str = one_of("float32", "bfloat16")
    """Of the encoder's matrix products; bfloat16 is faster where the machine
    has it, and changes answers in the third digit; elsewhere it is float32."""

    keep_memory: bool = True
    """Keep freed memory for the next batch instead of returning it to the
    system, which is faster. Of the GNU C library."""

    def __post_init__(self) -> None:
        if not self.model:
            raise UserError(
                "`model` must be the directory of a trained model. Received: "
                "nothing. Set --model."
            )
        if self.input and (self.text or self.text_b):
            raise UserError(
                "Either `text` or `input` can be answered. Received: both. "
                "Leave one out."
            )
        if self.text_b and not self.text:
            raise UserError(
                "`text_b` must stand beside a text. Received: no `text`. Set "
                "--text."
            )
        if self.templates and self.task:
            raise UserError(
                "Either a `task` that was learnt or `templates` can be "
                "answered. Received: both. Leave one out."
            )
        for name in ("examples", "score"):
            if getattr(self, name) and not self.templates:
                raise UserError(
                    f"`{name}` is of prompts. Received: no `templates`. Set "
                    f"--templates, or leave --{name} out."
                )
        require(self, "batch_size", "at least 1", lambda n: n >= 1)
        require_choices(self)


def main(config: PredictConfig) -> None:
    """Answers what the configuration names."""
    memory.keep_if(config.keep_memory)
    predictor = _predictor(config)
    texts = [text for text in (config.text, config.text_b) if text]
    if texts:
        source = inputs.of_texts(texts, predictor.input_spec)
    else:
        source = inputs.of_file(
            config.input, config.input_format, predictor.input_spec
        )
    answering.run(
        predictor.blocks,
        source,
        config.output,
        skip_bad_rows=config.skip_bad_rows,
    )


def _predictor(config: PredictConfig) -> Answerer:
    """Loads the model."""
    how = {"batch_size": config.batch_size, "precision": config.precision}
    with console.quiet_imports():
        from electra_tf.analysis.prompts.predictor import PromptPredictor
        from electra_tf.finetune.predictor import Predictor

    if not config.templates:
        return Predictor(config.model, task=config.task, **how)
    return PromptPredictor(
        config.model,
        config.templates,
        examples_file=config.examples,
        score=config.score,
        **how,
    )


if __name__ == "__main__":
    config_flags.run(main, PredictConfig)
