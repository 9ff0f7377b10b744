"""Paths of the arrays made by the original code.

tests/golden holds the minimum that the tests need. ELECTRA_GOLDEN names a
directory with the full set; the default is ../shared/golden.
"""

import os
import pathlib

HERE = pathlib.Path(__file__).parent
FULL = pathlib.Path(
    os.environ.get("ELECTRA_GOLDEN", HERE.parent.parent / "shared/golden")
)
VOCAB_FILE = FULL.parent / "data/vocab/bert-base-uncased-vocab.txt"
ROOT = FULL if FULL.exists() else HERE / "golden"
