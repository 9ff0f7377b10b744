"""Where arrays made by the original code are.

tests/golden holds what the tests need at least. ELECTRA_GOLDEN names a
directory with the full set; ../shared/golden is looked at without it.
"""

import os
import pathlib

HERE = pathlib.Path(__file__).parent
FULL = pathlib.Path(
    os.environ.get("ELECTRA_GOLDEN", HERE.parent.parent / "shared/golden")
)
VOCAB_FILE = FULL.parent / "data/vocab/bert-base-uncased-vocab.txt"
ROOT = FULL if FULL.exists() else HERE / "golden"
