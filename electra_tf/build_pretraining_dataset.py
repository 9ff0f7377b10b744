r"""Builds pre-training records from text.

python -m electra_tf.build_pretraining_dataset --corpus="books/*.txt" \
    --vocab_file=vocab.txt --output_dir=data/pretrain_tfrecords
python -m electra_tf.build_pretraining_dataset --corpus="gs://BUCKET/*.gz" \
    --vocab_file=vocab.txt --output_dir=gs://BUCKET/pretrain_tfrecords \
    --engine=beam --runner=DataflowRunner --beam_options=--project=PROJECT
"""

import dataclasses

from electra_tf.config.corpus import RecordsConfig
from electra_tf.util.errors import UserError
from electra_tf.util.flags import one_of, required, run_command, several


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildConfig(RecordsConfig):
    """Configuration of a corpus and its records."""

    output_dir: str = required()
    """Directory of the records. Required."""
    engine: str = one_of("local", "beam")
    """Processes on this machine, or Apache Beam. The records are the same."""
    runner: str = "DirectRunner"
    """Beam runner: DirectRunner for this machine, DataflowRunner, FlinkRunner
    or SparkRunner."""
    beam_options: tuple[str, ...] = several()
    """Options for Beam and its runner, as
    --beam_options=--project=PROJECT,--region=REGION."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.corpus.vocab_file:
            raise UserError("--vocab_file is required.")


def main(config: BuildConfig) -> None:
    """Builds the records."""
    from electra_tf.data import build, vocabularies

    if config.engine == "beam":
        from electra_tf.data.beam import BeamEngine

        engine = BeamEngine(config.runner, config.beam_options)
    else:
        engine = build.LocalEngine(config.num_processes)
    build.build_records(
        config.corpus,
        vocabularies.open_vocabulary(config.corpus, config.corpus.vocab_file),
        output_dir=config.output_dir,
        overwrite=config.overwrite,
        leave_out=[config.corpus.vocab_file],
        engine=engine,
    )


if __name__ == "__main__":
    run_command(main, BuildConfig)
