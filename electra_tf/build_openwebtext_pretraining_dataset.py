r"""Builds pre-training records from OpenWebText.

python -m electra_tf.build_openwebtext_pretraining_dataset --data_dir=DIR

Reads the archives in DIR/openwebtext, each a tar file of texts, and
DIR/vocab.txt; writes DIR/pretrain_tfrecords. One archive that holds all of
these archives works, too. Each text in an archive is a document. Nothing is
unpacked to disk.
"""

import dataclasses
import os

from electra_tf.config.corpus import CorpusConfig, RecordsConfig
from electra_tf.util import config_flags, console, signals, storage
from electra_tf.util.config_fields import required
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenWebTextConfig(RecordsConfig):
    """Configuration of OpenWebText and its records."""

    data_dir: str = required("name a directory")
    """Root of archives, vocabulary and records. Required."""

    def corpus_config(self) -> CorpusConfig:
        """Returns the corpus with the original code's default paths filled in.

        Raises:
          UserError: if a file is missing.
        """
        archives = os.path.join(self.data_dir, "openwebtext")
        corpus = dataclasses.replace(
            self.corpus,
            corpus=self.corpus.corpus or (archives,),
            vocab_file=self.corpus.vocab_file
            or os.path.join(self.data_dir, self.corpus.default_vocab_name),
        )
        if not self.corpus.corpus and not storage.is_directory(archives):
            raise UserError(
                "OpenWebText must be in <data_dir>/openwebtext: its archives "
                f"(urlsf_subset*.xz). Received: no directory {archives}. "
                "Unpack openwebtext.tar.xz there, or name it with --corpus."
            )
        if not storage.is_file(corpus.vocab_file):
            raise UserError(
                "A vocabulary is needed. Received: no file "
                f"{corpus.vocab_file}. Put BERT's there, or learn one with "
                f"`python -m electra_tf.build_vocab --corpus={archives} "
                f"--vocab_file={corpus.vocab_file}`."
            )
        return corpus


@signals.interruptible()
def main(config: OpenWebTextConfig) -> None:
    """Builds the records."""
    corpus = config.corpus_config()
    with console.quiet_imports():
        from electra_tf.data import dataset_builder, runners, vocabularies

    dataset_builder.build(
        corpus,
        vocabularies.open_vocabulary(corpus, corpus.vocab_file),
        output_dir=os.path.join(config.data_dir, "pretrain_tfrecords"),
        overwrite=config.overwrite,
        leave_out=[corpus.vocab_file],
        runner=runners.LocalRunner(config.num_processes),
        log=console.say,
    )


if __name__ == "__main__":
    config_flags.run(main, OpenWebTextConfig)
