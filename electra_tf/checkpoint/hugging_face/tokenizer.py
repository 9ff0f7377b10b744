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

import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import (
    MAX_INPUT_CHARS_PER_WORD,
    SUFFIX_INDICATOR,
    Vocabulary,
)
from electra_tf.util import files
from electra_tf.util.errors import UserError, shorten_repr

VOCAB_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"

# Only this class uses tokenizer.json unchanged in both transformers 4 and 5:
# BertTokenizer of 5 is rebuilt, and then maps words of more than 100 characters
# to [UNK].
_CLASS = "PreTrainedTokenizerFast"
_CLASSES = (
    None,
    "BertTokenizer",
    "BertTokenizerFast",
    "ElectraTokenizer",
    "ElectraTokenizerFast",
    _CLASS,
    "TokenizersBackend",
)

# If a field is present, only these values give the same tokens as ours.
_CONFIG_FIELDS = {
    "tokenizer_class": _CLASSES,
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


class Tokenizer(NamedTuple):
    """The tokenizer that a directory describes."""

    vocabulary: Vocabulary | None
    do_lower_case: bool | None
    strip_accents: bool | None


def read(directory: pathlib.Path) -> Tokenizer:
    """Reads `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`."""
    config = _read(directory / CONFIG_FILE, _CONFIG_FIELDS)
    tokenizer = _read(directory / TOKENIZER_FILE, _TOKENIZER_FIELDS)
    normalizer = tokenizer.get("normalizer") or {}

    def either(ours: str, theirs: str) -> bool | None:
        given = config.get(ours), normalizer.get(theirs)
        values = [value for value in given if value is not None]
        if values not in ([], [True], [False], [True] * 2, [False] * 2):
            raise UserError(
                f"{directory} must say once how its tokenizer was made. "
                f"Received: {ours}={config.get(ours)} in {CONFIG_FILE}, "
                f"{theirs}={normalizer.get(theirs)} in {TOKENIZER_FILE}. Set "
                "both to what the model was trained with."
            )
        return values[0] if values else None

    lower_case = either("do_lower_case", "lowercase")
    strip_accents = either("strip_accents", "strip_accents")
    if strip_accents and lower_case is False:
        raise UserError(
            "`strip_accents` must be false where `do_lower_case` is: ELECTRA's "
            "tokenizer drops accents only when lower-casing. Received: "
            f"strip_accents=true, do_lower_case=false in {directory}. To "
            "convert the weights alone, move its tokenizer's files away."
        )
    return Tokenizer(
        vocabulary=_vocabulary(directory, tokenizer),
        do_lower_case=lower_case,
        strip_accents=lower_case if strip_accents is None else strip_accents,
    )


def contents(
    vocabulary: Vocabulary,
    *,
    do_lower_case: bool,
    strip_accents: bool,
    max_length: int,
) -> dict[str, Any]:
    """Returns file name -> its text, or its value if it is JSON."""
    if vocabulary.sentencepiece:
        raise UserError(
            "Hugging Face's tokenizer of ELECTRA has word pieces. Received: "
            "the vocabulary of a SentencePiece model. Convert to another "
            "format, which keeps the model beside the weights."
        )
    strip_accents = do_lower_case and strip_accents
    config = {
        "tokenizer_class": _CLASS,
        "do_lower_case": do_lower_case,
        "strip_accents": strip_accents,
        "tokenize_chinese_chars": True,
        "model_max_length": max_length,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": True,
        **{f"{t.strip('[]').lower()}_token": t for t in SPECIAL_TOKENS},
    }
    return {
        VOCAB_FILE: "".join(f"{token}\n" for token in vocabulary.tokens),
        TOKENIZER_FILE: _tokenizer(vocabulary, do_lower_case, strip_accents),
        CONFIG_FILE: config,
    }


def _tokenizer(
    vocabulary: Vocabulary, do_lower_case: bool, strip_accents: bool
) -> dict[str, Any]:
    """Returns the content of tokenizer.json."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added_token(token, vocabulary.ids[token])
            for token in sorted(SPECIAL_TOKENS, key=vocabulary.ids.get)
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": strip_accents,
            "lowercase": do_lower_case,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": _post_processor(vocabulary),
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


def _read(
    path: pathlib.Path, fields: Mapping[str, tuple[Any, ...]]
) -> dict[str, Any]:
    """Reads a JSON file and checks some fields; {} if it is missing."""
    if not path.exists():
        return {}
    values = files.read_json(path)
    for name, allowed in fields.items():
        value, default = values, allowed[0]
        for key in name.split("."):
            found = isinstance(value, dict)
            value = value.get(key, default) if found else None
        if value not in allowed:
            raise UserError(
                f"`{name}` must be {json.dumps(default)} in {path}: another "
                "tokenizer than ELECTRA's cannot be kept. Received: "
                f"{json.dumps(value)}. To convert the weights alone, move the "
                "tokenizer's files away."
            )
    return values


def _vocabulary(
    directory: pathlib.Path, tokenizer: Mapping[str, Any]
) -> Vocabulary | None:
    """Reads the tokens from vocab.txt, or else from tokenizer.json."""
    path = directory / VOCAB_FILE
    if path.exists():
        return Vocabulary.from_file(str(path))
    if not tokenizer:
        return None
    path = directory / TOKENIZER_FILE
    ids = (tokenizer.get("model") or {}).get("vocab")
    if not isinstance(ids, dict) or {*map(repr, ids.values())} != {
        *map(repr, range(len(ids)))
    }:
        raise UserError(
            f"`model.vocab` must number its tokens from 0 on in {path}. "
            f"Received: {shorten_repr(ids)}."
        )
    try:
        return Vocabulary(tuple(sorted(ids, key=ids.get)))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _added_token(token: str, token_id: int) -> dict[str, Any]:
    flags = ("single_word", "lstrip", "rstrip", "normalized")
    return {
        "id": token_id,
        "content": token,
        **dict.fromkeys(flags, False),
        "special": True,
    }


def _post_processor(vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the template of rows of one or two texts, with segments."""

    def special(token: str, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": segment}}

    def text(name: str, segment: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    single = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, text("B", 1), special("[SEP]", 1)],
        "special_tokens": {
            token: {
                "id": token,
                "ids": [vocabulary.ids[token]],
                "tokens": [token],
            }
            for token in ("[CLS]", "[SEP]")
        },
    }
