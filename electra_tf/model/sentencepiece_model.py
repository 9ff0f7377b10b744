"""SentencePiece models: learning, reading and checking them.

A model holds its pieces, their scores and the rules by which text is
normalized, so that the ids of a text depend only on the model. The special
tokens are its first pieces; they are never found in text. `nmt_nfkc` folds
compatibility forms and unifies white space; `nmt_nfkc_cf` also lower-cases all
but İ. To strip accents, combining marks are removed from its result, and İ
becomes i, as for word pieces; Hangul syllables stay whole.
"""

import functools
import io
import pathlib
import re
import sys
import tempfile
import unicodedata
from collections.abc import Iterable

import sentencepiece
from etils import epath
from sentencepiece import sentencepiece_model_pb2

from electra_tf.util.errors import UserError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORD_INDICATOR = "\N{LOWER ONE EIGHTH BLOCK}"  # in the place of a space

CHARACTER_COVERAGE = 0.99995  # of the text; rarer characters become [UNK]
NUM_THREADS = 16  # of training; fixed, as rounding depends on it

_MAX_LINE_BYTES = 2**17  # SentencePiece skips longer lines


def read(path: str) -> tuple[tuple[str, ...], bytes]:
    """Returns the pieces of a model, and its bytes."""
    model = epath.Path(path).read_bytes()
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = range(processor.get_piece_size())
    special = {processor.id_to_piece(i) for i in ids if processor.is_control(i)}
    special.add(processor.id_to_piece(processor.unk_id()))
    if missing := {*SPECIAL_TOKENS} - special:  # could be found in text
        raise UserError(f"{path}: {sorted(missing)} must be control pieces.")
    return tuple(map(processor.id_to_piece, ids)), model


def normalization(model: bytes) -> tuple[bool, bool]:
    """Returns `do_lower_case` and `strip_accents` of a model."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    text = processor.normalize("\N{LATIN CAPITAL LETTER E WITH ACUTE}")
    text = unicodedata.normalize("NFD", text.strip(WORD_INDICATOR + " "))
    return text == text.lower(), len(text) == 1


def learn(
    lines: Iterable[str],
    *,
    vocab_size: int,
    model_type: str = "unigram",
    do_lower_case: bool,
    strip_accents: bool,
) -> bytes:
    """Trains a model."""
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as directory:
        rule = {"normalization_rule_name": "nmt_nfkc"}
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
                pad_id=0,
                pad_piece="[PAD]",
                unk_id=1,
                unk_piece="[UNK]",
                bos_id=2,
                bos_piece="[CLS]",
                eos_id=3,
                eos_piece="[SEP]",
                control_symbols=["[MASK]"],
                **rule,
            )
        except RuntimeError as error:
            # Without advice of a flag that only SentencePiece's command has.
            text = re.sub(r".*\] (?=.)| or decrease.*(?=\.)", "", str(error))
            raise UserError(f"vocab_size={vocab_size}: {text}") from error
    proto = sentencepiece_model_pb2.ModelProto.FromString(buffer.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")  # a path
    return proto.SerializeToString(deterministic=True)


@functools.cache
def _rules_to_strip_accents() -> str:
    """Returns `nmt_nfkc_cf` without combining marks, as SentencePiece's TSV."""
    lower = sentencepiece.SentencePieceNormalizer(
        rule_name="nmt_nfkc_cf",
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )
    characters = [
        character
        for character in map(chr, range(1, sys.maxunicode + 1))
        if unicodedata.category(character) not in ("Cn", "Co", "Cs")
    ]
    rules = []
    for before, text in zip(
        characters, lower.normalize(characters), strict=True
    ):
        text = text.replace("İ", "İ".lower())  # as the rule leaves it
        after = unicodedata.normalize("NFC", strip_accents(text))
        if after != before:
            rules.append((before, after))
    for syllable in map(chr, range(0xAC00, 0xD7A4)):  # Hangul stays composed
        rules.append((unicodedata.normalize("NFD", syllable), syllable))
    return "".join(
        f"{_hexadecimal(before)}\t{_hexadecimal(after)}\n"
        for before, after in rules
    )


def strip_accents(text: str) -> str:
    """Decomposes text (NFD), and drops its combining marks."""
    marked = unicodedata.normalize("NFD", text)
    return "".join(c for c in marked if unicodedata.category(c) != "Mn")


def _hexadecimal(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)
