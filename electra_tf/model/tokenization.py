"""The vocabulary, and the original's splitting of text into words, in Python.

`GraphTokenizer` does the same inside TensorFlow and also finds word pieces.
Code points that the Unicode version of the running Python does not know are
dropped.

Source: the original's model/tokenization.py.
"""

import codecs
import dataclasses
import functools
import hashlib
import string
import unicodedata
from collections.abc import Callable, Mapping

from etils import epath

from electra_tf.model import sentencepiece_model
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS, WORD_INDICATOR
from electra_tf.util import files
from electra_tf.util.errors import UserError, advise

ADDED_FILE = "added_tokens.json"  # Hugging Face's name
SUFFIX_INDICATOR = "##"
MAX_INPUT_CHARS_PER_WORD = 200
MAX_BYTES_PER_PIECE = 256  # limit of lookups in the graph tokenizer

CHINESE_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model; the id of a token is its position.

    Attributes:
      tokens: any texts, including all `SPECIAL_TOKENS`; `[PAD]` is the first,
        as rows are padded with zeros. Of equal tokens the last id counts.
      sentencepiece: the SentencePiece model whose pieces are the tokens; empty
        for word pieces.
      added: tokens that no word is split into but that texts have as they are,
        at least 3 bytes; any letter case counts where text is lower-cased.
      counts: how often each token occurs in the training records; None if not
        known. Ignored when vocabularies are compared.
    """

    tokens: tuple[str, ...]
    sentencepiece: bytes = dataclasses.field(
        default=b"", repr=False, kw_only=True
    )
    added: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)
    counts: tuple[int, ...] | None = dataclasses.field(
        default=None, compare=False, repr=False, kw_only=True
    )

    def __post_init__(self) -> None:
        for number, token in enumerate(self.tokens, start=1):
            text = token.removeprefix(SUFFIX_INDICATOR)
            num_bytes = len(text.encode(errors="surrogatepass"))
            is_unknown = "\0" in token or num_bytes > MAX_BYTES_PER_PIECE
            if (is_unknown or "\n" in token) and not self.sentencepiece:
                raise UserError(
                    f"{token!r:.60} in line {number} of a vocabulary has a "
                    f"NUL, a line end or more than {MAX_BYTES_PER_PIECE} bytes."
                )
        if short := [x for x in self.added if len(x.encode()) < 3]:
            raise UserError(f"The added token {short[0]!r} is too short.")
        missing = [token for token in SPECIAL_TOKENS if token not in self.ids]
        if missing or self.tokens[0] != "[PAD]":
            raise UserError(
                f"A vocabulary of {len(self.tokens)} tokens lacks "
                f"{' '.join(missing) or '[PAD] in line 1'}."
            )

    @classmethod
    def from_file(cls, path: str) -> "Vocabulary":
        """Reads a file of one token per line, stripped of white space around.

        Args:
          path: a UTF-8 file, beside which `ADDED_FILE` may have the ids of
            added tokens; a SentencePiece model if its name ends in `.model`.

        Raises:
          UserError: if the file cannot be read or is not a vocabulary, naming
            it and the line.
        """
        if path.endswith(".model"):
            pieces, model = sentencepiece_model.read(path)
            return cls(pieces, sentencepiece=model)
        content = epath.Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
        try:
            lines = content.decode().removesuffix("\n").split("\n")
            lines = [line.removesuffix("\r") for line in lines]
            # An entry may be only a separator, which `strip` would empty.
            vocabulary = cls(tuple(line.strip() or line for line in lines))
        except (UnicodeDecodeError, UserError) as error:
            raise UserError(f"{path}: {error}") from error
        if others := vocabulary.size - len(vocabulary.ids):
            advise(f"{path} repeats {others} tokens: the last id counts.")
        added = epath.Path(path).parent / ADDED_FILE
        if not added.exists():
            return vocabulary
        return vocabulary.with_added(files.read_json(added))

    def write(self, path: files.StrPath) -> None:
        """Writes the file, and `ADDED_FILE` beside it if tokens were added."""
        files.atomic_write_bytes(path, self.content)
        if self.added:
            ids = {token: self.ids[token] for token in self.added}
            files.write_json(epath.Path(path).parent / ADDED_FILE, ids)

    def with_added(self, ids: Mapping[str, int]) -> "Vocabulary":
        """Adds tokens with their ids; special ones stay what they are."""
        tokens = dict(enumerate(self.tokens)) | {i: x for x, i in ids.items()}
        added = dict.fromkeys((*self.added, *ids))
        return dataclasses.replace(
            self,
            tokens=tuple(tokens.get(i, "") for i in range(max(tokens) + 1)),
            added=tuple(x for x in added if x not in SPECIAL_TOKENS),
        )

    @property
    def kind(self) -> str:
        """Either "sentencepiece" or "wordpiece"."""
        return "sentencepiece" if self.sentencepiece else "wordpiece"

    @property
    def content(self) -> bytes:
        """The bytes of its file."""
        return self.sentencepiece or self._lines.encode()

    @property
    def _lines(self) -> str:
        return "".join(f"{token}\n" for token in self.tokens)

    @functools.cached_property
    def continues_word(self) -> tuple[bool, ...]:
        """True for each token that continues the word before it."""
        if not self.sentencepiece:
            return tuple(x.startswith(SUFFIX_INDICATOR) for x in self.tokens)
        return tuple(
            not token.startswith(WORD_INDICATOR) and token not in SPECIAL_TOKENS
            for token in self.tokens
        )

    def surface(self, token_id: int) -> str:
        """Returns the text of a token, without the word or suffix indicator."""
        indicator = WORD_INDICATOR if self.sentencepiece else SUFFIX_INDICATOR
        return self.tokens[token_id].removeprefix(indicator)

    @property
    def size(self) -> int:
        return len(self.tokens)

    unk_id = property(lambda self: self.ids["[UNK]"])
    cls_id = property(lambda self: self.ids["[CLS]"])
    sep_id = property(lambda self: self.ids["[SEP]"])
    mask_id = property(lambda self: self.ids["[MASK]"])

    @property
    def is_cased(self) -> bool:
        """True of word pieces with capitals: 5 % of those with letters."""
        words = [x for x in self.tokens if x[:1] not in "[<"]  # not special
        capitals = sum(x != x.lower() for x in words)
        letters = sum(x.lower() != x.upper() for x in words)
        return not self.sentencepiece and capitals > 0.05 * letters

    @functools.cached_property
    def ids(self) -> Mapping[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}

    @functools.cached_property
    def sha256(self) -> str:
        """SHA-256 of the tokens, one per line, then of any SentencePiece model.

        Equals the hash of a vocabulary file that has no superfluous white
        space, beside which no token was added.
        """
        content = self._lines.encode() + self.sentencepiece
        content += "".join(self.added).encode()
        return hashlib.sha256(content).hexdigest()


@dataclasses.dataclass
class BasicTokenizer:
    """Cleans text and splits it into words and punctuation."""

    do_lower_case: bool = True
    strip_accents: bool = True

    def tokenize(self, text: str) -> list[str]:
        """Returns the words and punctuation marks of a text."""
        words = []
        for word in text.translate(_CLEAN).split():
            if self.do_lower_case:
                word = word.lower()
                if self.strip_accents:
                    word = sentencepiece_model.strip_accents(word)
            words.extend(word.translate(_SPLIT).split())
        return words


class _Translation(dict):
    """Caches what a function replaces characters by, for `str.translate`."""

    def __init__(self, replacement: Callable[[str], str]) -> None:
        self.replacement = replacement

    def __missing__(self, code: int) -> str:
        self[code] = self.replacement(chr(code))
        return self[code]


def _clean(character: str) -> str:
    """Drops control characters, unifies spaces, isolates Chinese."""
    category = unicodedata.category(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if character == "\ufffd" or category.startswith("C"):
        return ""
    code = ord(character)
    is_chinese = any(low <= code <= high for low, high in CHINESE_RANGES)
    return f" {character} " if is_chinese else character


def _isolate_punctuation(character: str) -> str:
    """Isolates punctuation, including ASCII symbols as $ and ^."""
    is_ascii = character in string.punctuation
    if is_ascii or unicodedata.category(character).startswith("P"):
        return f" {character} "
    return character


_CLEAN, _SPLIT = _Translation(_clean), _Translation(_isolate_punctuation)
