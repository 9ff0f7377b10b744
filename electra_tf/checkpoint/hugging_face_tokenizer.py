"""The tokenizer in a Hugging Face directory, read and written as JSON.

The `tokenizers` library is not needed. It differs from our tokenizers in these
cases, whatever the files say:

- a special token in the text, as `[MASK]`, is that token; here it is text;
- a capital sigma at the end of a word becomes the non-final small sigma;
- characters of Unicode 9 or later are not recognized as punctuation or accents,
  and unassigned ones are kept;
- U+2B820 to U+2B91F, of a CJK block, are treated as letters of words.

Source: transformers, models/bert/tokenization_bert.py; tokenizers,
normalizers/bert.rs.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import (
    MAX_INPUT_CHARS_PER_WORD,
    SUFFIX_INDICATOR,
    Vocabulary,
)
from electra_tf.util import files
from electra_tf.util.errors import UserError

VOCAB_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"

_NORMALIZATION = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
}
# Only this class uses tokenizer.json unchanged in both transformers 4 and 5:
# BertTokenizer of 5 is rebuilt, and then maps words of more than 100 characters
# to [UNK].
_CLASS = "PreTrainedTokenizerFast"
# If a field is present, only these values give the same tokens as ours.
_CONFIG_FIELDS = {
    "tokenizer_class": (
        None,
        "BertTokenizer",
        "BertTokenizerFast",
        "ElectraTokenizer",
        "ElectraTokenizerFast",
        _CLASS,
        "TokenizersBackend",
    ),
    "tokenize_chinese_chars": (True,),
    "do_basic_tokenize": (True,),
    "never_split": (None, []),
}
_TOKENIZER_FIELDS = {
    "model.type": ("WordPiece",),
    "model.unk_token": ("[UNK]",),
    "model.continuing_subword_prefix": (SUFFIX_INDICATOR,),
    "pre_tokenizer.type": ("BertPreTokenizer",),
    "normalizer.type": ("BertNormalizer",),
    "normalizer.clean_text": (True,),
    "normalizer.handle_chinese_chars": (True,),
}


def read(directory: pathlib.Path) -> dict[str, Any]:
    """Reads vocabulary, letter case and accents, each None if not known."""
    config = _read(directory / CONFIG_FILE, _CONFIG_FIELDS)
    tokenizer = _read(directory / TOKENIZER_FILE, _TOKENIZER_FIELDS)
    normalizer = tokenizer.get("normalizer") or {}
    settings = {}
    for ours, theirs in _NORMALIZATION.items():
        given = {config.get(ours), normalizer.get(theirs)} - {None}
        if len(given) > 1:
            raise UserError(
                f"{CONFIG_FILE} and {TOKENIZER_FILE} in {directory} differ in "
                f"{ours}."
            )
        settings[ours] = next(iter(given), None)
    if settings["strip_accents"] and settings["do_lower_case"] is False:
        raise UserError(
            f"The tokenizer in {directory} strips accents without "
            "lower-casing, which ELECTRA's does not."
        )
    if settings["strip_accents"] is None:
        settings["strip_accents"] = settings["do_lower_case"]
    vocabulary = None
    if (directory / VOCAB_FILE).exists():
        vocabulary = Vocabulary.from_file(str(directory / VOCAB_FILE))
    elif tokenizer:
        ids = tokenizer["model"]["vocab"]
        if sorted(ids.values()) != [*range(len(ids))]:
            raise UserError(
                f"{directory / TOKENIZER_FILE} skips or repeats an id."
            )
        vocabulary = Vocabulary(tuple(sorted(ids, key=ids.get)))
    return {"vocabulary": vocabulary, **settings}


def _read(
    path: pathlib.Path, fields: Mapping[str, tuple[Any, ...]]
) -> dict[str, Any]:
    """Reads a JSON file and checks some fields; {} if it is missing."""
    if not path.exists():
        return {}
    values = files.read_json(path)
    for name, allowed in fields.items():
        value = values
        for key in name.split("."):
            value = (value or {}).get(key, allowed[0])
        if value not in allowed:
            raise UserError(
                f"{name}={value!r} in {path} is of another tokenizer than "
                "ELECTRA's. To read the weights alone, move the file away."
            )
    return values


def contents(
    vocabulary: Vocabulary,
    *,
    do_lower_case: bool,
    strip_accents: bool,
    max_length: int,
) -> dict[str, Any]:
    """Returns file name -> value of the JSON files."""
    if vocabulary.sentencepiece:
        raise UserError(
            "Hugging Face's ELECTRA has no tokenizer of SentencePiece models."
        )
    special = {f"{x.strip('[]').lower()}_token": x for x in SPECIAL_TOKENS}
    config = {
        "tokenizer_class": _CLASS,
        "do_lower_case": do_lower_case,
        "strip_accents": do_lower_case and strip_accents,
        "tokenize_chinese_chars": True,
        "model_max_length": max_length,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": True,
        **special,
    }
    flags = dict.fromkeys(
        ("single_word", "lstrip", "rstrip", "normalized"), False
    )
    cls, sep, end = (
        {"SpecialToken": {"id": token, "type_id": segment}}
        for token, segment in (("[CLS]", 0), ("[SEP]", 0), ("[SEP]", 1))
    )
    first, second = (
        {"Sequence": {"id": name, "type_id": segment}}
        for name, segment in (("A", 0), ("B", 1))
    )
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": vocabulary.ids[x], "content": x, **flags, "special": True}
            for x in sorted(SPECIAL_TOKENS, key=vocabulary.ids.get)
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": do_lower_case and strip_accents,
            "lowercase": do_lower_case,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [cls, first, sep],
            "pair": [cls, first, sep, second, end],
            "special_tokens": {
                x: {"id": x, "ids": [vocabulary.ids[x]], "tokens": [x]}
                for x in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {
            "type": "WordPiece",
            "prefix": SUFFIX_INDICATOR,
            "cleanup": True,
        },
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": SUFFIX_INDICATOR,
            "max_input_chars_per_word": MAX_INPUT_CHARS_PER_WORD,
            "vocab": dict(vocabulary.ids),
        },
    }
    return {TOKENIZER_FILE: tokenizer, CONFIG_FILE: config}
