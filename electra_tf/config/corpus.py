"""The configuration of a corpus; needs no TensorFlow."""

import dataclasses
from collections.abc import Mapping

from electra_tf.config import phases as phases_lib
from electra_tf.util.config_fields import Checked, bounded, one_of, require
from electra_tf.util.errors import UserError

ORIGINAL_FLAGS: Mapping[str, str] = {
    "corpus_dir": "corpus",
    "no_lower_case": "nodo_lower_case",
    "do_strip_accents": "strip_accents",
    "no_strip_accents": "nostrip_accents",
}
"""Flags of the original's builders -> flags here."""

BERT_VOCAB_SIZE = 30522
"""Word pieces of BERT's English vocabulary."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusConfig(Checked):
    """Configuration of a corpus and its records."""

    corpus: tuple[str, ...] = ()
    """Text files (plain, JSON lines, Parquet, tar archives; also as .gz, .xz,
    .bz2, .zst), directories or globs; tfds:NAME[/CONFIG][:SPLIT] for a
    prepared data set of TensorFlow Datasets; "demo" for the installed English
    documentation. Comma-separated; may be repeated."""

    text_field: str = "text"
    """Field of an object of JSON lines (with dots for a field of a field),
    column of a Parquet file or feature of a tfds example that is its text."""

    skip_bad_lines: bool = False
    """Count lines of JSON lines that are no object with a text, and rows of
    Parquet without one, and leave them out; otherwise the first is an
    error."""

    tfds_data_dir: str = ""
    """Directory of prepared tfds data sets. Default: $TFDS_DATA_DIR or
    ~/tensorflow_datasets."""

    drop_duplicates: bool = False
    """Leave out documents whose text occurs earlier in the corpus, whatever its
    white space and, where text is lower-cased, its case. The text is read
    twice."""

    max_member_bytes: int = bounded("at least 1", 2**26)
    """Size of a text file in an archive above which it is left out, in
    bytes."""

    tokenizer: str = one_of("wordpiece", "sentencepiece")
    """Tokenizer: BERT's word pieces, or a SentencePiece model, which needs no
    spaces between words."""

    vocab_file: str = ""
    """Word pieces, one on a line, or a SentencePiece model. Default:
    <data_dir>/vocab.txt or <data_dir>/spm.model."""

    vocab_size: int | None = bounded("at least 6", None)
    """Tokens to learn, or to expect in `vocab_file`. Default: 30522 when
    learned, else as many as the file has."""

    pad_vocab_to_multiple: int = bounded("at least 1", 1)
    """Add unused tokens until the vocabulary has a multiple of so many: 8 may
    be faster on GPUs."""

    vocab_sample_bytes: int = bounded("at least 0", 2**27)
    """Text to learn a vocabulary from, in bytes: documents from all of the
    corpus; 0 for all of them. It is held in memory."""

    sentencepiece_model_type: str = one_of("unigram", "bpe")
    """Type of a SentencePiece model that is learned."""

    do_lower_case: bool = True
    """Lower-case the text."""

    strip_accents: bool = True
    """Remove accents; only where text is lower-cased, as in the original."""

    max_seq_length: int = bounded("at least 5", 128)
    """Tokens in a row, [CLS] and [SEP] included; in the longest rows where
    there are phases or buckets."""

    seq_length_phases: str = ""
    """LENGTH:SHARE or LENGTH:SHARE:BATCH_SIZE of each phase of the training,
    comma-separated. 128:0.9,512:0.1 takes rows of 128 tokens for 90 % of the
    updates and of 512 for the rest, as BERT did. One pass over the text makes
    the records of all lengths: those of `max_seq_length`, the longest, in the
    directory of the data set, those of 128 beside it in one that ends in _128.
    Default: one phase."""

    length_buckets: tuple[int, ...] = ()
    """Rising lengths, comma-separated, as in 32,64,128: a training record is
    padded to the shortest of them and `max_seq_length` that holds it, and a
    batch has records of one length. For documents shorter than rows. Default:
    all are padded to `max_seq_length`."""

    blanks_separate_docs: bool = True
    """A blank line ends a document."""

    packing: str = one_of("carry", "original", "packed")
    """Packing of documents into rows. carry: text that a row does not hold
    starts the next row, and room that a document leaves is padding. original:
    such text is dropped, as by the original. packed: such text starts the next
    row, and documents share rows, without reading each other."""

    split_sentences: bool = False
    """Take each sentence for a line, so that the second segment of a row
    begins with a sentence: for text of one paragraph a line. Rules find where
    sentences end, see data/sentence_splitter.py."""

    held_out_fraction: float = bounded("in [0, 1)", 0.01)
    """Share of the documents kept for evaluation."""

    num_shards: int = bounded("at least 0", 0)
    """Files of training records; 0: as many as suit the size of the corpus."""

    data_seed: int = bounded("at least 0", 0)
    """Seed of packing, split and shards."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_lengths()
        is_model = self.vocab_file.endswith(".model")
        if self.vocab_file and is_model != (self.tokenizer == "sentencepiece"):
            raise UserError(
                "`vocab_file` must end in .model for a SentencePiece model and "
                "only then. Received: "
                f"vocab_file={self.vocab_file!r}, tokenizer={self.tokenizer!r}."
            )

    def _check_lengths(self) -> None:
        longest = self.max_seq_length
        lengths = [p.max_seq_length for p in self.phases] or [longest]
        if min(lengths) < 5 or max(lengths) != longest:
            raise UserError(
                "`max_seq_length` must be the longest of `seq_length_phases`, "
                f"none below 5. Received: max_seq_length={longest}, "
                f"seq_length_phases={self.seq_length_phases!r}. Set "
                f"--max_seq_length={max(lengths)}."
            )
        require(
            self,
            "length_buckets",
            f"rising, from 5 to max_seq_length={longest}",
            lambda buckets: (
                [*buckets] == sorted({*buckets})
                and all(5 <= length <= longest for length in buckets)
            ),
        )

    @property
    def phases(self) -> tuple[phases_lib.Share, ...]:
        """The phases of the training; none for one of `max_seq_length`."""
        return phases_lib.parse(self.seq_length_phases)

    @property
    def data_sets(self) -> tuple["CorpusConfig", ...]:
        """The configuration of each data set, of one length, shortest first."""
        lengths = {phase.max_seq_length for phase in self.phases}
        return tuple(
            dataclasses.replace(
                self,
                max_seq_length=length,
                seq_length_phases="",
                length_buckets=self._buckets_below(length),
            )
            for length in sorted(lengths | {self.max_seq_length})
        )

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """The lengths of training records in one data set, rising."""
        buckets = self._buckets_below(self.max_seq_length)
        return (*buckets, self.max_seq_length)

    def directory_of(self, data_set: "CorpusConfig", directory: str) -> str:
        """Returns the directory of one of `data_sets`.

        Args:
          data_set: one of them.
          directory: of the data set with the longest rows.
        """
        length = data_set.max_seq_length
        if length == self.max_seq_length:
            return directory
        return f"{directory.rstrip('/')}_{length}"

    def _buckets_below(self, length: int) -> tuple[int, ...]:
        return tuple(b for b in self.length_buckets if b < length)

    @property
    def is_packed(self) -> bool:
        """Whether rows hold several documents."""
        return self.packing == "packed"

    @property
    def target_vocab_size(self) -> int:
        """Tokens of a vocabulary to be learned: by default BERT's number."""
        return self.vocab_size or BERT_VOCAB_SIZE

    @property
    def default_vocab_name(self) -> str:
        """The name of the vocabulary's file in a data directory."""
        is_model = self.tokenizer == "sentencepiece"
        return "spm.model" if is_model else "vocab.txt"
