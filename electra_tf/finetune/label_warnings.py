"""Warnings about likely mistakes in the labels of custom tasks."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from electra_tf.finetune.tagging.spans import is_span_tag
from electra_tf.util.errors import listed

_MISSING = frozenset({"nan", "null", "n/a", "<na>"})  # "none" may be a class
_MIN_LABELS = 20  # a small trial file may well have one per row


def of_labels(labels: Sequence[str]) -> list[str]:
    """Returns warnings about missing, misspelt or too many labels."""
    counts = Counter(labels)
    return [*_missing(counts), *of_names(counts), *_too_many(counts)]


def of_names(names: Iterable[str]) -> list[str]:
    """Returns a warning about names that differ by their spelling alone."""
    groups: dict[str | float, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        groups[_normalized(name)].append(name)
    same = [group for group in groups.values() if len(group) > 1]
    if not same:
        return []
    found = listed([" and ".join(map(repr, group)) for group in same])
    return [
        "Labels that differ only by case or by the format of a number count "
        f"as different labels: {found}. Write them alike if they mean the same."
    ]


def of_span_tags(tags: Iterable[str]) -> list[str]:
    """Returns a warning if some tags, but not all, encode spans."""
    others = sorted(tag for tag in tags if not is_span_tag(tag))
    spans = sorted({*tags} - {"O", *others})
    if not (others and spans):
        return []
    return [
        f"Tags count one by one, without spans: {listed(spans)} encode spans "
        f"(B, I, E or S, a dash and a kind), but {listed(others)} do not. If "
        "that is a mistake, correct it; --tag_scheme=spans refuses such rows. "
        "If it is none, set --tag_scheme=tags."
    ]


def _missing(counts: Counter[str]) -> list[str]:
    return [
        f"The label {label!r} of {count:,} rows looks like a missing value. "
        "Leave these rows out of the file if it is one."
        for label, count in counts.items()
        if label.strip().casefold() in _MISSING
    ]


def _too_many(counts: Counter[str]) -> list[str]:
    num_rows = counts.total()
    if len(counts) < _MIN_LABELS or 2 * len(counts) <= num_rows:
        return []
    are_numbers = all(isinstance(_normalized(label), float) for label in counts)
    way_out = (
        "Set --task_kind=regression if they are values"
        if are_numbers
        else "Set another --label_column if this one holds no classes"
    )
    return [
        f"There are {len(counts):,} labels for {num_rows:,} rows. {way_out}."
    ]


def _normalized(name: str) -> str | float:
    """Returns the number that a name spells, or else the name case-folded."""
    try:
        value = float(name)
    except ValueError:
        return name.strip().casefold()
    return value if math.isfinite(value) else name.strip().casefold()
