r"""Builds pre-training records from OpenWebText.

python -m electra_tf.build_openwebtext_pretraining_dataset --data_dir=DIR

Reads the archives in DIR/openwebtext, each a tar file of texts, and
DIR/vocab.txt; writes DIR/pretrain_tfrecords. Each text in an archive is a
document. Nothing is unpacked to disk.
"""

import dataclasses
import os

from electra_tf.config.corpus import RecordsConfig
from electra_tf.util.flags import required, run_command


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenWebTextConfig(RecordsConfig):
    """Configuration of OpenWebText and its records."""

    data_dir: str = required()
    """Root of archives, vocabulary and records. Required."""


def main(config: OpenWebTextConfig) -> None:
    """Builds the records."""
    from electra_tf.data import build, vocabularies

    archives = os.path.join(config.data_dir, "openwebtext")
    corpus = dataclasses.replace(
        config.corpus,
        corpus=config.corpus.corpus or (archives,),
        vocab_file=config.corpus.vocab_path(config.data_dir),
    )
    build.build_records(
        corpus,
        vocabularies.open_vocabulary(corpus, corpus.vocab_file),
        output_dir=os.path.join(config.data_dir, "pretrain_tfrecords"),
        overwrite=config.overwrite,
        leave_out=[corpus.vocab_file],
        engine=build.LocalEngine(config.num_processes),
    )


if __name__ == "__main__":
    run_command(main, OpenWebTextConfig)
