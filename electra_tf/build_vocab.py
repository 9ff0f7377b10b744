r"""Learns a vocabulary from text: word pieces, or a SentencePiece model.

python -m electra_tf.build_vocab --corpus="books/*.txt" \
    --vocab_size=30522 --vocab_file=vocab.txt
python -m electra_tf.build_vocab --corpus="books/*.txt" \
    --tokenizer=sentencepiece --vocab_size=32000 --vocab_file=spm.model
"""

import dataclasses

from electra_tf.config.corpus import CorpusConfig
from electra_tf.util.errors import UserError
from electra_tf.util.flags import run_command


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabConfig:
    """Configuration of a corpus and its vocabulary."""

    corpus: CorpusConfig = CorpusConfig()

    def __post_init__(self) -> None:
        if not self.corpus.vocab_file:
            raise UserError("Set --vocab_file.")


def main(config: VocabConfig) -> None:
    """Learns the vocabulary."""
    from electra_tf.data import vocabularies

    vocabularies.build_vocabulary(config.corpus, config.corpus.vocab_file)


if __name__ == "__main__":
    run_command(main, VocabConfig)
