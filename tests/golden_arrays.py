"""Paths of the arrays made by the original code, and distances from them.

tests/golden holds the minimum that the tests need. ELECTRA_GOLDEN names a
directory with the full set; the default is ../shared/golden.
"""

import os
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent
FULL = pathlib.Path(
    os.environ.get("ELECTRA_GOLDEN", HERE.parent.parent / "shared/golden")
)
VOCAB_FILE = FULL.parent / "data/vocab/bert-base-uncased-vocab.txt"
ROOT = FULL if FULL.exists() else HERE / "golden"


def distance(ours, theirs):
    """Returns the norm of the difference divided by the norm of theirs."""
    difference = np.linalg.norm(np.asarray(ours, float) - theirs)
    size = np.linalg.norm(theirs)
    return difference / size if size else difference


def close(found, expected):
    """Returns whether two trees of JSON are equal up to rounding."""
    if isinstance(expected, float):
        return np.isclose(found, expected, rtol=2e-5, atol=2e-6)
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(
            close(found[name], expected[name]) for name in expected
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    return found == expected
