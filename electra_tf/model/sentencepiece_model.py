"""SentencePiece models: learning, reading and checking them.

A model holds its pieces, their scores and the rules by which text is
normalized before it is split, so that the ids of a text depend only on the
model. The special tokens are its first pieces; they are never found in text.

The rule `nmt_nfkc` of SentencePiece folds compatibility forms and unifies white
space; `nmt_nfkc_cf` also lower-cases all but İ. To strip accents, combining
marks are removed from its result, and İ becomes i, as for word pieces; Hangul
syllables stay whole.
"""

import functools
import io
import itertools
import pathlib
import sys
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import sentencepiece
from etils import epath
from sentencepiece import sentencepiece_model_pb2

from electra_tf.util.errors import UserError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORD_INDICATOR = "\N{LOWER ONE EIGHTH BLOCK}"  # in the place of a space

CHARACTER_COVERAGE = 0.99995  # of the text; rarer characters become [UNK]
NUM_THREADS = 16  # of training; fixed, as rounding depends on it

_EXTENSION = ".model"
_MAX_LINE_BYTES = 2**17  # SentencePiece skips longer lines
_AS_IT_IS = {
    "add_dummy_prefix": False,
    "escape_whitespaces": False,
    "remove_extra_whitespaces": False,
}


class Normalization(NamedTuple):
    """The normalization of text by a model."""

    do_lower_case: bool
    strip_accents: bool


def is_model_file(path: str) -> bool:
    """Returns whether a path has the extension of a SentencePiece model."""
    return path.endswith(_EXTENSION)


def read(path: str) -> tuple[tuple[str, ...], bytes]:
    """Reads a model."""
    model = epath.Path(path).read_bytes()
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    size = processor.get_piece_size()
    pieces = [processor.id_to_piece(i) for i in range(size)]
    if problem := _problem(processor, pieces):
        raise UserError(
            f"{path}: {problem}. A model that build_vocab learns has the "
            f"control pieces {' '.join(SPECIAL_TOKENS)}."
        )
    return tuple(pieces), model


def normalization(model: bytes) -> Normalization:
    """Finds out whether a model lower-cases and drops accents."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    text = processor.normalize("\N{LATIN CAPITAL LETTER E WITH ACUTE}")
    text = unicodedata.normalize("NFD", text.strip(WORD_INDICATOR + " "))
    return Normalization(text == text.lower(), len(text) == 1)


def learn(
    lines: Iterable[str],
    *,
    vocab_size: int,
    model_type: str,
    do_lower_case: bool,
    strip_accents: bool,
) -> bytes:
    """Trains a model."""
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as directory:
        rule: dict[str, str] = {"normalization_rule_name": "nmt_nfkc"}
        if do_lower_case and strip_accents:
            path = pathlib.Path(directory, "rules.tsv")
            path.write_text(_rules_to_strip_accents(), encoding="utf-8")
            rule = {"normalization_rule_tsv": str(path)}
        elif do_lower_case:
            rule = {"normalization_rule_name": "nmt_nfkc_cf"}
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=buffer,
                model_type=model_type,
                vocab_size=vocab_size,
                hard_vocab_limit=False,
                character_coverage=CHARACTER_COVERAGE,
                max_sentence_length=_MAX_LINE_BYTES,
                num_threads=NUM_THREADS,
                minloglevel=2,
                **rule,
                **_special_pieces(),
            )
        except RuntimeError as error:
            raise UserError(f"vocab_size={vocab_size}: {error}") from error
    return _without_paths(buffer.getvalue())


def _without_paths(model: bytes) -> bytes:
    """Clears the path of the rule file, whose rules the model contains."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    return proto.SerializeToString(deterministic=True)


def _special_pieces() -> dict[str, object]:
    pad, unk, cls, sep, mask = SPECIAL_TOKENS
    return {
        "pad_id": 0,
        "pad_piece": pad,
        "unk_id": 1,
        "unk_piece": unk,
        "bos_id": 2,
        "bos_piece": cls,
        "eos_id": 3,
        "eos_piece": sep,
        "control_symbols": [mask],
    }


def _problem(
    processor: sentencepiece.SentencePieceProcessor, pieces: list[str]
) -> str:
    """Returns why a model cannot be used here; empty if it can."""
    if missing := [token for token in SPECIAL_TOKENS if token not in pieces]:
        first = " ".join(pieces[:6])
        return f"no {' '.join(missing)}; its first pieces are {first}"
    if pieces[0] != "[PAD]":
        return f"its first piece is {pieces[0]}"
    unknown = pieces[processor.unk_id()]
    if unknown != "[UNK]":
        return f"its unknown piece is {unknown}"
    for token in SPECIAL_TOKENS:
        if token != "[UNK]" and not processor.is_control(pieces.index(token)):
            return f"{token} is no control piece: it could be found in text"
    return ""


@functools.cache
def _rules_to_strip_accents() -> str:
    """Returns `nmt_nfkc_cf` without combining marks, as SentencePiece's TSV."""
    return "".join(
        f"{_hexadecimal(before)}\t{_hexadecimal(after)}\n"
        for before, after in itertools.chain(
            _rules_for_characters(), _rules_for_hangul()
        )
    )


def _rules_for_characters() -> Iterator[tuple[str, str]]:
    lower = sentencepiece.SentencePieceNormalizer(
        rule_name="nmt_nfkc_cf", **_AS_IT_IS
    )
    characters = [
        character
        for character in map(chr, range(1, sys.maxunicode + 1))
        if unicodedata.category(character) not in ("Cn", "Co", "Cs")
    ]
    for before, text in zip(
        characters, lower.normalize(characters), strict=True
    ):
        text = text.replace("İ", "İ".lower())  # as the rule leaves it
        after = unicodedata.normalize("NFC", strip_accents(text))
        if after != before:
            yield before, after


def _rules_for_hangul() -> Iterator[tuple[str, str]]:
    """Yields each Hangul syllable, decomposed and composed."""
    for code in range(0xAC00, 0xD7A4):
        yield unicodedata.normalize("NFD", chr(code)), chr(code)


def strip_accents(text: str) -> str:
    """Decomposes text (NFD), and drops its combining marks."""
    marked = unicodedata.normalize("NFD", text)
    return "".join(c for c in marked if unicodedata.category(c) != "Mn")


def _hexadecimal(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)
