"""N-best lists of a speech recogniser.

Each n-best list is an object, in a .json list or on a .jsonl line:

    {"hypotheses": ["the chef eight", "the chef ate"],
     "reference": "the chef ate", "scores": [-0.2, -0.3]}

Hypotheses come best first, with or without the recogniser's scores, higher is
better. The names of HyPoradise, `input` and `output`, with `score` or
`am_score`, are read, too; other fields are ignored.

Words are compared without normalization: give hypotheses and references the
same case and punctuation.

Source: Chen et al., 2023 (HyPoradise).
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.analysis.batches import padded
from electra_tf.analysis.examples import json_rows
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data.tables import BadRowError, Row, describe_place
from electra_tf.util.errors import UserError, shorten_repr

_HYPOTHESES = ("hypotheses", "input", "nbest")
_REFERENCES = ("reference", "output")
_SCORES = ("scores", "score", "am_score")


class NBest(NamedTuple):
    """A list of hypotheses."""

    hypotheses: tuple[str, ...]
    reference: str
    scores: tuple[float, ...] = ()


class Counts(NamedTuple):
    """Errors of the hypotheses of U lists of at most K.

    Shapes: num_words [U], num_errors [U, K], is_valid [U, K].
    """

    num_words: np.ndarray
    num_errors: np.ndarray
    is_valid: np.ndarray


def read(config: AnalysisConfig, split: str) -> list[NBest]:
    """Reads the lists of a split; see `json_rows.read`."""
    first_place: dict[bool, str] = {}  # whether a list has scores -> its place

    def parse(record: Row, path: str) -> NBest:
        found = _parse(record)
        place = f"{path}, {describe_place(record.place)}"
        first_place.setdefault(bool(found.scores), place)
        if len(first_place) > 1:
            raise BadRowError(
                "All lists, or none, must have the recogniser's scores. "
                "Received: this one differs from "
                f"{next(iter(first_place.values()))}."
            )
        return found

    lists = json_rows.read(config, split, parse)
    if not any(one.reference.split() for one in lists):
        raise UserError(
            "References must hold words. Received: none in "
            f"{', '.join(getattr(config, split))}."
        )
    return lists


def count_errors(lists: Sequence[NBest]) -> Counts:
    """Counts the word errors of each hypothesis."""
    import jiwer

    def num_errors(reference: str, hypothesis: str) -> int:
        # jiwer splits at spaces alone.
        words = (" ".join(text.split()) for text in (reference, hypothesis))
        found = jiwer.process_words(*words)
        return found.substitutions + found.deletions + found.insertions

    return Counts(
        num_words=np.array([len(one.reference.split()) for one in lists]),
        num_errors=padded(
            [[num_errors(x.reference, h) for h in x.hypotheses] for x in lists],
            dtype=np.int64,
        ),
        is_valid=padded([[1] * len(x.hypotheses) for x in lists], dtype=bool),
    )


def _parse(record: Row) -> NBest:
    """Parses an n-best list."""
    hypotheses = record.value(_column(record, _HYPOTHESES), list)
    if not hypotheses or not all(isinstance(x, str) for x in hypotheses):
        raise BadRowError(
            "The hypotheses must be a list of at least one text. Received: "
            f"{shorten_repr(hypotheses)}."
        )
    reference = record.value(_column(record, _REFERENCES), str)
    names = [name for name in _SCORES if name in record]
    scores = record.value(names[0], list) if names else []
    if names and not _are_valid_scores(scores, len(hypotheses)):
        raise BadRowError(
            f"{names[0]!r} must hold a number for each of the "
            f"{len(hypotheses)} hypotheses. Received: {shorten_repr(scores)}."
        )
    return NBest(tuple(hypotheses), reference, tuple(map(float, scores)))


def _column(record: Row, names: Sequence[str]) -> str:
    """Returns the first of several names that a record has."""
    found = [name for name in names if name in record]
    if not found:
        record.value(names[0])  # raises, naming the fields that exist
    return found[0]


def _are_valid_scores(scores: Sequence[object], count: int) -> bool:
    """Returns whether there is a finite float for each hypothesis."""
    return len(scores) == count and all(
        isinstance(x, int | float)
        and not isinstance(x, bool)
        and abs(x) <= sys.float_info.max
        for x in scores
    )
