"""A warning if stripping accents removes more than accents.

Stripping drops the nonspacing marks of the decomposed text. These are accents
in Latin, Greek and Cyrillic script. In others they are also vowels, as in Hindi
and Thai, or tell consonants apart, as in Japanese. A syllable of Hangul loses
nothing: it decomposes into letters.
"""

import collections
import random
import unicodedata
from collections.abc import Iterable, Iterator

from electra_tf.util import console

SAMPLE_LINES = 10_000
SAMPLE_CHARACTERS = 100  # of each line
MAX_SHARE = 0.01  # marks for each letter
# How the names of characters begin whose marks are accents, or on no letter.
_ACCENTED = ("LATIN", "GREEK", "CYRILLIC", "COMBINING", "VARIATION SELECTOR")


def watch(lines: Iterable[str]) -> Iterator[str]:
    """Yields lines; after the last, warns if they lose more than accents."""
    chosen: list[str] = []
    rng = random.Random(0)
    for number, line in enumerate(lines):
        if number < SAMPLE_LINES:
            chosen.append(line[:SAMPLE_CHARACTERS])
        elif (place := rng.randrange(number + 1)) < SAMPLE_LINES:
            chosen[place] = line[:SAMPLE_CHARACTERS]
        yield line
    _warn(chosen)


def _warn(lines: Iterable[str]) -> None:
    counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        counts.update(unicodedata.normalize("NFC", line))
    letters = {c: n for c, n in counts.items() if c.isalpha()}
    lost = {c: n for c, n in counts.items() if _loses_mark(c)}
    num_letters, num_lost = sum(letters.values()), sum(lost.values())
    if num_lost > MAX_SHARE * num_letters:
        most = unicodedata.name(max(lost, key=lost.__getitem__))
        console.warn(
            "The text loses its accents and, in other scripts than Latin, "
            "Greek and Cyrillic, marks that belong to the letters: "
            f"{num_lost:,} from {num_letters:,} letters of a sample, most "
            f"often {most}. Words that differ only in marks become equal. "
            "BERT's uncased models lose them, too; --nostrip_accents keeps "
            "them."
        )


def _loses_mark(character: str) -> bool:
    """Returns whether a character has, or is, a mark that is no accent."""
    if unicodedata.category(character)[0] not in "LM":
        return False  # a symbol, as the sign of inequality
    decomposed = unicodedata.normalize("NFD", character)
    has_mark = "Mn" in map(unicodedata.category, decomposed)
    name = unicodedata.name(character, "")
    return has_mark and not name.startswith(_ACCENTED)
