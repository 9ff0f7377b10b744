"""--packing=original gives the original's records; word pieces are its own.

The full arrays hold `meta.json` and `<set>.npz` with data sets packed from
`text200.txt`, and `tokenization*.json` with strings and their word pieces, one
file for each Unicode version that the original ran on.
"""

import itertools
import json
import random

import golden_arrays
import numpy as np
import pytest
import reference_tokenizer

from electra_tf.data.packing import ExampleBuilder
from electra_tf.model.graph_tokenization import GraphTokenizer
from electra_tf.model.tokenization import Vocabulary

DIRECTORY = golden_arrays.ROOT / "data"
VOCAB_FILE = str(golden_arrays.VOCAB_FILE)
META = DIRECTORY / "meta.json"
META = json.loads(META.read_text()) if META.exists() else {}
DATA_SETS = [name for name in META if (DIRECTORY / f"{name}.npz").exists()]
# Unicode version -> characters of the strings that were assigned since. Python
# has 14.0 or later, tensorflow-text 15.0: unassigned characters are dropped.
ASSIGNED_SINCE = {
    "11.0.0": "\u061d\u2c2f\u4dbf\u9fff\U0001f978\U0001fa90\U0001fae0"
    "\U0001fae8\U00031350",
    "14.0.0": "\U0001fae8\U00031350",
}
needs_all = pytest.mark.skipif(
    not golden_arrays.VOCAB_FILE.exists(), reason="needs the full arrays"
)


def _records(lines, length, seed, vocabulary):
    """Packs lines of ids, None between documents, to arrays of records."""
    builder, examples = ExampleBuilder(length, random.Random(seed)), []
    for is_end, document in itertools.groupby(lines, lambda x: x is None):
        examples += [] if is_end else builder.pack(document)
    ids, mask, segments = np.zeros((3, len(examples), length), int)
    sep = vocabulary.sep_id
    for row, (first, second) in enumerate(examples):
        tokens = [vocabulary.cls_id, *first, sep, *second]
        tokens += [sep] * bool(second)
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
        segments[row, len(first) + 2 : len(tokens)] = 1
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def _assert_equal(ours, golden):
    assert len(ours["input_ids"])
    for name, array in ours.items():
        np.testing.assert_array_equal(array, golden[name])


def test_packing_gives_the_originals_records():
    golden = np.load(golden_arrays.HERE / "golden/packing.npz")
    ids, lines = iter(golden["ids"].tolist()), []
    for length in golden["line_lengths"]:
        is_end = length < 0
        lines.append(None if is_end else [next(ids) for _ in range(length)])
    words = [f"w{i}" for i in range(103)]
    words[0], words[100:103] = "[PAD]", ["[UNK]", "[CLS]", "[SEP]"]
    vocabulary = Vocabulary((*words, "[MASK]"))
    assert golden["max_seq_length"] == 128
    _assert_equal(_records(lines, 128, int(golden["seed"]), vocabulary), golden)


@needs_all
@pytest.mark.parametrize("name", DATA_SETS)
def test_data_sets_are_the_originals(name):
    meta = META[name]
    vocabulary = Vocabulary.from_file(VOCAB_FILE)
    options = {x: meta[x] for x in ("do_lower_case", "strip_accents")}
    lines = [
        reference_tokenizer.tokenize(line, vocabulary, **options)
        if line.strip()
        else None
        for line in (DIRECTORY / "text200.txt").read_text("utf-8").split("\n")
    ]
    if not meta["blanks_separate_docs"]:
        lines = [line for line in lines if line is not None]
    length, seed = meta["max_seq_length"], meta["seed"]
    ours = _records(lines, length, seed, vocabulary)
    _assert_equal(ours, np.load(DIRECTORY / f"{name}.npz"))


@needs_all
@pytest.mark.parametrize(
    "path", sorted(DIRECTORY.glob("tokenization*.json")), ids=lambda p: p.stem
)
def test_word_pieces_differ_only_in_characters_new_to_unicode(path):
    golden, num_different = json.loads(path.read_text()), 0
    new = set(ASSIGNED_SINCE[golden["unicode"]])
    vocabulary = Vocabulary.from_file(VOCAB_FILE)
    for mode, theirs in golden["modes"].items():
        lower, strip = (part.endswith("True") for part in mode.split(","))
        options = (vocabulary, lower, strip)
        in_graph = GraphTokenizer(*options).tokenize(golden["strings"])
        rows = zip(golden["strings"], theirs, in_graph.to_list(), strict=True)
        for text, expected, ids in rows:
            for found in (reference_tokenizer.tokenize(text, *options), ids):
                pieces = [vocabulary.tokens[i] for i in found]
                if pieces != expected["tokens"]:
                    num_different += 1
                    assert new & set(text), text
    assert num_different, "the strings hold such characters"
