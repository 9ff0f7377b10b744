"""A corpus, its records, and the phases of a training on them."""

import dataclasses
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from electra_tf.util.errors import UserError
from electra_tf.util.flags import Checked, bounded, one_of, several

BERT_VOCAB_SIZE = 30522
"""Word pieces of BERT's English vocabulary."""

VOCABULARY_FILES: Mapping[str, str] = {
    "wordpiece": "vocab.txt",
    "sentencepiece": "spm.model",
}
"""Tokenizer -> default name of its vocabulary file."""


class Phase(NamedTuple):
    """Updates `first_step` to `end_step` - 1: one row length and batch size."""

    first_step: int
    end_step: int
    batch_size: int
    max_seq_length: int
    row_length: float  # mean of the batches, padding included

    @property
    def num_steps(self) -> int:
        """Number of its updates."""
        return self.end_step - self.first_step

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens in an update, padding included."""
        return self.batch_size * self.row_length


def phase_at(phases: Sequence[Phase], step: int) -> int:
    """Returns the number of the phase of an update; the last one's after it."""
    ends = (n for n, phase in enumerate(phases) if step < phase.end_step)
    return next(ends, len(phases) - 1)


def tokens_after(phases: Sequence[Phase], step: int) -> float:
    """Returns the tokens of all updates after `step`, padding included."""
    return sum(
        phase.tokens_per_step * (phase.end_step - max(step, phase.first_step))
        for phase in phases
        if phase.end_step > step
    )


def parse_phases(text: str) -> list[tuple[int, float, int]]:
    """Reads length, share and batch size (0 for the default) of each phase."""
    phases = []
    for word in filter(None, text.replace(" ", "").split(",")):
        try:
            length, share, *size = word.split(":")
            (batch_size,) = size or ["0"]
            phases.append((int(length), float(share), int(batch_size)))
        except ValueError as error:
            raise UserError(
                f"seq_length_phases: {word} is not LENGTH:SHARE[:BATCH_SIZE]."
            ) from error
    total = sum(share for _, share, _ in phases)
    if phases and not math.isclose(total, 1, abs_tol=1e-6):
        raise UserError(f"seq_length_phases={text}: the shares sum to {total}.")
    return phases


def plan_phases(
    text: str, *, num_train_steps: int, batch_size: int, max_seq_length: int
) -> tuple[Phase, ...]:
    """Divides the updates of a training among its phases."""
    shares = parse_phases(text) or [(max_seq_length, 1.0, 0)]
    sums = itertools.accumulate(share for _, share, _ in shares)
    ends = [0, *(round(part * num_train_steps) for part in sums)]
    ends[-1] = num_train_steps
    steps = [*itertools.pairwise(ends)]
    if any(first >= end for first, end in steps):
        raise UserError(f"seq_length_phases={text}: a phase has no updates.")
    return tuple(
        Phase(first, end, size or batch_size, length, length)
        for (first, end), (length, _, size) in zip(steps, shares, strict=True)
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusConfig(Checked):
    """Configuration of a corpus and its records."""

    corpus: tuple[str, ...] = several()
    """Text files (plain, JSON lines, Parquet, tar; also compressed),
    directories or globs, comma-separated; tfds:NAME[/CONFIG][:SPLIT] for a
    prepared data set; "demo" for the installed English documentation."""
    text_field: str = "text"
    """JSON field (dots for nested ones), Parquet column or tfds feature that
    holds the text."""
    drop_duplicates: bool = False
    """Skip documents whose text occurs earlier in the corpus, ignoring white
    space and, where text is lower-cased, case."""
    tokenizer: str = one_of("wordpiece", "sentencepiece")
    """BERT's word pieces, or a SentencePiece model, which needs no spaces."""
    vocab_file: str = ""
    """Word pieces, one on a line, or a SentencePiece model. Default:
    <data_dir>/vocab.txt or <data_dir>/spm.model."""
    vocab_size: int | None = bounded(None, 6)
    """Maximum tokens. Default: 30522 when learned, else all in the file."""
    do_lower_case: bool = True
    """Lower-case the text."""
    strip_accents: bool = True
    """Remove accents of lower-cased text; also removes Japanese voicing marks
    and vowel signs of Hindi and Thai."""
    max_seq_length: int = bounded(128, 5)
    """Tokens in the longest rows, including [CLS] and [SEP]."""
    seq_length_phases: str = ""
    """LENGTH:SHARE[:BATCH_SIZE] of each phase, comma-separated:
    128:0.9,512:0.1 trains on rows of 128 tokens for 90 % of the updates, then
    on rows of 512, as BERT did."""
    blanks_separate_docs: bool = True
    """A blank line ends a document."""
    packing: str = one_of("carry", "original", "packed")
    """carry: text that does not fit a row starts the next; original: it is
    dropped, as in the original; packed: documents also share rows, without
    attending to each other."""
    held_out_fraction: float = bounded(0.01, 0, 1)
    """Share of the documents held out for evaluation."""
    num_shards: int = bounded(0, 0)
    """Number of files of training records; 0 chooses by corpus size."""
    data_seed: int = bounded(0, 0)
    """Seed of packing, of the held-out split and of sharding."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_seq_length != max(self._phase_lengths):
            raise UserError(
                f"max_seq_length={self.max_seq_length} is not the longest of "
                f"seq_length_phases={self.seq_length_phases}."
            )

    @property
    def _phase_lengths(self) -> set[int]:
        phases = parse_phases(self.seq_length_phases)
        return {length for length, *_ in phases} or {self.max_seq_length}

    @property
    def data_sets(self) -> tuple["CorpusConfig", ...]:
        """The configuration of the data set of each length, shortest first."""
        return tuple(
            dataclasses.replace(
                self, max_seq_length=length, seq_length_phases=""
            )
            for length in sorted(self._phase_lengths)
        )

    def directory_of(self, data_set: "CorpusConfig", directory: str) -> str:
        """Returns the directory of one of `data_sets`."""
        length = data_set.max_seq_length
        if length == self.max_seq_length:
            return directory
        return f"{directory.rstrip('/')}_{length}"

    @property
    def is_packed(self) -> bool:
        """True if rows hold several documents."""
        return self.packing == "packed"

    @property
    def target_vocab_size(self) -> int:
        """Size of a vocabulary that is learned; by default BERT's."""
        return self.vocab_size or BERT_VOCAB_SIZE

    def vocab_path(self, data_dir: str) -> str:
        """Returns the vocabulary's file, by default one in `data_dir`."""
        default = os.path.join(data_dir, VOCABULARY_FILES[self.tokenizer])
        return self.vocab_file or default


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordsConfig(Checked):
    """A corpus, and how its records are built."""

    corpus: CorpusConfig = CorpusConfig()
    overwrite: bool = False
    """Replace records that exist."""
    num_processes: int = bounded(0, 0)
    """Number of processes; 0 for one per core. The records are the same."""

    ORIGINAL_FLAGS: ClassVar[Mapping[str, str]] = {
        "corpus_dir": "corpus",
        "no_lower_case": "nodo_lower_case",
        "do_strip_accents": "strip_accents",
        "no_strip_accents": "nostrip_accents",
    }
