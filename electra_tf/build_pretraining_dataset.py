r"""Builds pre-training records from text.

python -m electra_tf.build_pretraining_dataset --corpus="books/*.txt" \
    --vocab_file=vocab.txt --output_dir=data/pretrain_tfrecords
python -m electra_tf.build_pretraining_dataset --corpus="gs://BUCKET/*.gz" \
    --vocab_file=vocab.txt --output_dir=gs://BUCKET/pretrain_tfrecords \
    --engine=beam --runner=DataflowRunner --beam_options=--project=PROJECT
"""

import dataclasses

from electra_tf.config.corpus import RecordsConfig
from electra_tf.util import config_flags, console, signals
from electra_tf.util.config_fields import one_of
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildConfig(RecordsConfig):
    """Configuration of a corpus and its records."""

    output_dir: str = ""
    """Directory of the records. Required."""

    engine: str = one_of("local", "beam")
    """How to run the build: processes on this machine (local), or Apache Beam
    on any number of machines. The records are the same."""

    runner: str = "DirectRunner"
    """Beam runner, with --engine=beam: DirectRunner for this machine,
    DataflowRunner, FlinkRunner or SparkRunner."""

    beam_options: tuple[str, ...] = ()
    """Options for Beam and its runner, for example
    --beam_options=--project=PROJECT,--region=REGION; may be repeated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.output_dir or not self.corpus.vocab_file:
            raise UserError(
                "`output_dir` and `vocab_file` must be given. Received: "
                f"output_dir={self.output_dir!r}, "
                f"vocab_file={self.corpus.vocab_file!r}."
            )
        is_for_beam = self.beam_options or self.runner != BuildConfig.runner
        if is_for_beam and self.engine != "beam":
            raise UserError(
                "`runner` and `beam_options` need `engine=beam`. Received: "
                f"engine={self.engine!r}, runner={self.runner!r}, "
                f"beam_options={self.beam_options}. Set --engine=beam."
            )
        if self.num_processes and self.engine == "beam":
            raise UserError(
                "`num_processes` needs `engine=local`. Received: "
                f"engine={self.engine!r}, num_processes={self.num_processes}. "
                "Set the number of workers in --beam_options."
            )


@signals.interruptible()
def main(config: BuildConfig) -> None:
    """Builds the records."""
    with console.quiet_imports():
        from electra_tf.data import (
            beam_runner,
            dataset_builder,
            runners,
            vocabularies,
        )

    if config.engine == "beam":
        runner = beam_runner.BeamRunner(config.runner, config.beam_options)
    else:
        runner = runners.LocalRunner(config.num_processes)
    dataset_builder.build(
        config.corpus,
        vocabularies.open_vocabulary(config.corpus, config.corpus.vocab_file),
        output_dir=config.output_dir,
        overwrite=config.overwrite,
        leave_out=[config.corpus.vocab_file],
        runner=runner,
        log=console.say,
    )


if __name__ == "__main__":
    config_flags.run(main, BuildConfig)
