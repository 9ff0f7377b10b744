"""The configuration of a corpus; needs no TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from electra_tf.config import phases as phases_lib
from electra_tf.util.config_fields import Checked, bounded, one_of, require
from electra_tf.util.errors import UserError

BERT_VOCAB_SIZE = 30522
"""Word pieces of BERT's English vocabulary."""

VOCABULARY_FILES: Mapping[str, str] = {
    "wordpiece": "vocab.txt",
    "sentencepiece": "spm.model",
}
"""Tokenizer -> default name of its vocabulary file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusConfig(Checked):
    """Configuration of a corpus and its records."""

    corpus: tuple[str, ...] = ()
    """Text files (plain, JSON lines, Parquet, tar archives; also as .gz, .xz,
    .bz2, .zst), directories or globs; tfds:NAME[/CONFIG][:SPLIT] for a
    prepared data set of TensorFlow Datasets; "demo" for the installed English
    documentation. Comma-separated; may be repeated."""

    text_field: str = "text"
    """Field of a JSON lines object (dots for nested fields), column of a
    Parquet file or feature of a tfds example that holds the text."""

    skip_bad_lines: bool = False
    """Skip and count JSON lines that are not an object with a text, and Parquet
    rows without one; otherwise the first of them is an error."""

    tfds_data_dir: str = ""
    """Directory of prepared tfds data sets. Default: $TFDS_DATA_DIR or
    ~/tensorflow_datasets."""

    drop_duplicates: bool = False
    """Skip documents whose text occurs earlier in the corpus, ignoring white
    space and, where text is lower-cased, case. The text is then read twice."""

    max_member_bytes: int = bounded("at least 1", 2**26)
    """Maximum size of a text file in an archive, in bytes; larger ones are
    skipped."""

    tokenizer: str = one_of("wordpiece", "sentencepiece")
    """Tokenizer: BERT's word pieces, or a SentencePiece model, which needs no
    spaces between words."""

    vocab_file: str = ""
    """Word pieces, one on a line, or a SentencePiece model. Default:
    <data_dir>/vocab.txt or <data_dir>/spm.model."""

    vocab_size: int | None = bounded("at least 6", None)
    """Maximum number of tokens, to learn or in `vocab_file`. Default: 30522
    when learned, else as many as the file has."""

    pad_vocab_to_multiple: int = bounded("at least 1", 1)
    """Add unused tokens until the size of the vocabulary is a multiple of this;
    8 may be faster on GPUs."""

    vocab_sample_bytes: int = bounded("at least 0", 2**27)
    """Bytes of text from which a vocabulary is learned, sampled from the whole
    corpus and held in memory; 0 uses the whole corpus."""

    sentencepiece_model_type: str = one_of("unigram", "bpe")
    """Type of a SentencePiece model that is learned."""

    do_lower_case: bool = True
    """Lower-case the text."""

    strip_accents: bool = True
    """Remove accents; only if text is lower-cased, as in the original. With
    them go Japanese voicing marks and vowel signs of Hindi, Thai and others:
    set --nostrip_accents for such text."""

    max_seq_length: int = bounded("at least 5", 128)
    """Tokens in a row, including [CLS] and [SEP]; with phases or buckets, in
    the longest rows."""

    seq_length_phases: str = ""
    """LENGTH:SHARE or LENGTH:SHARE:BATCH_SIZE of each phase of the training,
    comma-separated. 128:0.9,512:0.1 trains on rows of 128 tokens for 90 % of
    the updates and on rows of 512 for the rest, as BERT did. One pass over the
    text makes the records of all lengths: those of the longest,
    `max_seq_length`, in the directory of the data set, those of 128 beside it
    in a directory that ends in _128. Default: one phase."""

    length_buckets: tuple[int, ...] = ()
    """Ascending lengths, comma-separated, as in 32,64,128. Each training record
    is padded to the shortest bucket that fits it, or else to `max_seq_length`,
    and all records of a batch have the same length. Useful for documents that
    are shorter than rows. Default: all records are padded to
    `max_seq_length`."""

    blanks_separate_docs: bool = True
    """A blank line ends a document."""

    packing: str = one_of("carry", "original", "packed")
    """Packing of documents into rows. carry: text that does not fit a row
    starts the next row, and the rest of a document's last row is padding.
    original: such text is dropped, as in the original. packed: such text starts
    the next row, and documents share rows without attending to each other."""

    split_sentences: bool = False
    """Treat each sentence as a line, so that the second segment of a row begins
    with a sentence. For text with one paragraph a line. Sentence ends are found
    by rules, see data/sentence_splitter.py."""

    held_out_fraction: float = bounded("in [0, 1)", 0.01)
    """Share of the documents held out for evaluation."""

    num_shards: int = bounded("at least 0", 0)
    """Number of files of training records; 0 chooses by corpus size. With
    buckets, about as many."""

    data_seed: int = bounded("at least 0", 0)
    """Seed of packing, of the held-out split and of sharding."""

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
        model_type = self.sentencepiece_model_type
        if model_type != "unigram" and self.tokenizer != "sentencepiece":
            raise UserError(
                "`sentencepiece_model_type` is read only with "
                "--tokenizer=sentencepiece. Received: "
                f"sentencepiece_model_type={model_type!r}, "
                f"tokenizer={self.tokenizer!r}. Set --tokenizer=sentencepiece, "
                "or leave --sentencepiece_model_type out."
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
            f"ascending, from 5 to max_seq_length={longest}",
            lambda buckets: (
                [*buckets] == sorted({*buckets})
                and all(5 <= length <= longest for length in buckets)
            ),
        )

    @property
    def phases(self) -> tuple[phases_lib.Share, ...]:
        """The phases of the training; empty for a single phase."""
        return phases_lib.parse(self.seq_length_phases)

    @property
    def data_sets(self) -> tuple["CorpusConfig", ...]:
        """The configuration of the data set of each length, shortest first."""
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
        """The lengths of training records in one data set, ascending."""
        buckets = self._buckets_below(self.max_seq_length)
        return (*buckets, self.max_seq_length)

    def directory_of(self, data_set: "CorpusConfig", directory: str) -> str:
        """Returns the directory of one of `data_sets`."""
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
        """Size of a vocabulary that is learned; by default BERT's."""
        return self.vocab_size or BERT_VOCAB_SIZE

    @property
    def default_vocab_name(self) -> str:
        """The default name of the vocabulary file in a data directory."""
        return VOCABULARY_FILES[self.tokenizer]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordsConfig(Checked):
    """A corpus, and how its records are built."""

    corpus: CorpusConfig = CorpusConfig()

    overwrite: bool = False
    """Replace an existing data set."""

    num_processes: int = bounded("at least 0", 0)
    """Number of processes; 0: one per core, at most one for four shards of 16
    MiB of text. The records do not depend on it. --packing=original uses
    one."""

    ORIGINAL_FLAGS: ClassVar[Mapping[str, str]] = {
        "corpus_dir": "corpus",
        "no_lower_case": "nodo_lower_case",
        "do_strip_accents": "strip_accents",
        "no_strip_accents": "nostrip_accents",
    }
