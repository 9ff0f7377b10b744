"""The configuration of a corpus; needs no TensorFlow."""

import dataclasses
from collections.abc import Mapping

from electra_tf.util.config_fields import one_of, require, require_choices
from electra_tf.util.errors import UserError

ORIGINAL_FLAGS: Mapping[str, str] = {
    "corpus_dir": "corpus",
    "no_lower_case": "nodo_lower_case",
    "do_strip_accents": "strip_accents",
    "no_strip_accents": "nostrip_accents",
}
"""The flags of the original's builders that are others here."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """The text, and how it becomes records."""

    corpus: tuple[str, ...] = ()
    """Text files (.txt, .jsonl, tar archives; also as .gz, .xz, .bz2, .zst),
    directories or globs; tfds:NAME[/CONFIG][:SPLIT] for a prepared data set of
    TensorFlow Datasets; "demo" for the installed English documentation.
    Comma-separated; may be repeated."""

    text_field: str = "text"
    """Field of a .jsonl or tfds example that is its text."""

    skip_bad_lines: bool = False
    """Count lines of .jsonl files that are no object with a text and leave
    them out; otherwise the first is an error."""

    tfds_data_dir: str = ""
    """Directory of prepared tfds data sets. Default: $TFDS_DATA_DIR or
    ~/tensorflow_datasets."""

    max_member_bytes: int = 2**26
    """Size of a text file in an archive above which it is left out, in
    bytes."""

    tokenizer: str = one_of("wordpiece", "sentencepiece")
    """How words are split: into BERT's word pieces, or by a SentencePiece
    model, which needs no spaces between words."""

    vocab_file: str = ""
    """Word pieces, one on a line, or a SentencePiece model. Default:
    <data_dir>/vocab.txt or <data_dir>/spm.model."""

    vocab_size: int | None = None
    """Tokens to learn, or to expect in `vocab_file`. Default: 30522 when
    learned, else as many as the file has."""

    pad_vocab_to_multiple: int = 1
    """Add unused tokens until the vocabulary has a multiple of so many: 8 may
    be faster on GPUs."""

    vocab_sample_bytes: int = 2**27
    """Text to learn a vocabulary from, in bytes: documents from all of the
    corpus; 0 for all of them. It is held in memory."""

    sentencepiece_model_type: str = one_of("unigram", "bpe")
    """What a SentencePiece model is learned as."""

    do_lower_case: bool = True
    """Lower-case the text."""

    strip_accents: bool = True
    """Remove accents; only where text is lower-cased, as in the original."""

    max_seq_length: int = 128
    """Tokens in a row, [CLS] and [SEP] included."""

    blanks_separate_docs: bool = True
    """A blank line ends a document."""

    original_packing: bool = False
    """Drop what overflows a row, as the original does, and do not carry it
    over into the next."""

    held_out_fraction: float = 0.01
    """Share of the documents kept for evaluation."""

    num_shards: int = 0
    """Files of training records; 0: as many as suit the size of the corpus."""

    data_seed: int = 0
    """Seed of packing, split and shards."""

    def __post_init__(self) -> None:
        require(self, "vocab_size", "at least 6", lambda n: n >= 6)
        require(self, "max_seq_length", "at least 5", lambda n: n >= 5)
        require(self, "held_out_fraction", "in [0, 1)", lambda p: 0 <= p < 1)
        positive = "max_member_bytes pad_vocab_to_multiple"
        require(self, positive, "at least 1", lambda n: n >= 1)
        require(self, "vocab_sample_bytes", "at least 0", lambda n: n >= 0)
        require(self, "num_shards data_seed", "at least 0", lambda n: n >= 0)
        require_choices(self)
        is_model = self.vocab_file.endswith(".model")
        if self.vocab_file and is_model != (self.tokenizer == "sentencepiece"):
            raise UserError(
                "`vocab_file` must end in .model for a SentencePiece model and "
                "only then. Received: "
                f"vocab_file={self.vocab_file!r}, tokenizer={self.tokenizer!r}."
            )

    @property
    def default_vocab_name(self) -> str:
        """The name of the vocabulary's file in a data directory."""
        is_model = self.tokenizer == "sentencepiece"
        return "spm.model" if is_model else "vocab.txt"
