"""Sentence splitting by rules.

A sentence ends after a mark, with the quotes and brackets that close after it,
if white space follows and the next letter is not lower-case; after CJK marks
without white space. A full stop does not end one after an abbreviation, a
single letter, a word with a full stop inside, or a number of one or two digits:
"Mr. Smith", "J. S. Bach", "e.g.", "1. Introduction", "am 3. Oktober". A missed
end costs little: two sentences stay on one line.
"""

import re

_CLOSING = "\"'”’“‘»›«‹)\\]}」』】）］〉》"
_OPENING = "\"'“‘„«‹»›(\\[{「『【（［〈《¿¡–—\\-"
_WIDE = "。！？｡．"
_MARKS = ".!?…؟۔।॥։።။។"
_ALL = _WIDE + _MARKS
_BREAK = re.compile(  # possessive, so that each run of marks is tried once
    rf"[{_ALL}](?<![{_ALL}][{_ALL}])[{_ALL}]*+"
    rf"(?:(?<=[{_WIDE}])(?![{_CLOSING}]|(?<=．)\d)\s*+"
    rf"|(?<=[{_WIDE}])[{_CLOSING}]++(?![ぁ-ゖ])\s*+"
    rf"|[{_CLOSING}]*+(?:\s»)?\s++(?=[{_OPENING}\s]*+(?P<next>\w)))"
)
_LONGEST_WORD = 20  # characters before a full stop that are looked at

_ABBREVIATIONS = frozenset(
    # English: titles, references, places, months
    "mr mrs ms dr prof rev hon gen col capt lt sgt maj sen rep gov st mt ft "
    "vs viz cf approx dept est fig figs eq vol vols pp ch ed eds op "
    "jan feb apr aug sept oct nov dec "
    # German
    "bzw ca evtl ggf inkl nr str tel vgl zzgl hrsg bsp abs hr fr dipl ing "
    # French
    "mm mme mmes mlle env av chap "
    # Spanish
    "sr sra srta ud uds dra pág núm ej avda "
    # Italian
    "sig sigg dott".split()
)
_BEFORE_NUMBERS = frozenset({"no", "nos", "art", "mar"})  # words elsewhere


def split_sentences(line: str) -> list[str]:
    sentences, start = [], 0
    for found in _BREAK.finditer(line):
        before = max(start, found.start() - _LONGEST_WORD)
        if _is_end(line[before : found.start()], found):
            sentences.append(line[start : found.end()].strip())
            start = found.end()
    rest = line[start:].strip()
    if not sentences:
        return [line]
    return sentences + [rest] * bool(rest)


def _is_end(before: str, found: re.Match[str]) -> bool:
    if (found["next"] or "").islower():
        return False
    if found[0].strip() != ".":
        return True
    word = re.split(r"\s", before)[-1].lstrip(_OPENING).lower()
    return not (
        (len(word) == 1 and word.isalpha())
        or (len(word) <= 2 and word.isdecimal())
        or "." in word
        or word in _ABBREVIATIONS
        or (word in _BEFORE_NUMBERS and found["next"].isdecimal())
    )
