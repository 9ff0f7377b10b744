"""--packing=original gives the original's records; word pieces are its own.

The full arrays hold `tokenization*.json`, strings and their word pieces for
each Unicode version that the original ran on. `data/test_build`
packs whole data sets.
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
CLS, SEP = 101, 102
VOCAB_FILE = str(golden_arrays.VOCAB_FILE)
# Unicode version -> characters of the strings that were assigned since. Python
# has 14.0 or later, tensorflow-text 15.0: unassigned characters are dropped.
ASSIGNED_SINCE = {
    "11.0.0": "\u061d\u2c2f\u4dbf\u9fff\U0001f978\U0001fa90\U0001fae0"
    "\U0001fae8\U00031350",
    "14.0.0": "\U0001fae8\U00031350",
}


def test_packing_gives_the_originals_records():
    golden = np.load(golden_arrays.HERE / "golden/packing.npz")
    builder = ExampleBuilder(128, random.Random(int(golden["seed"])))
    lengths, ids = golden["line_lengths"], iter(golden["ids"].tolist())
    examples = []
    for is_end, document in itertools.groupby(lengths, lambda x: x < 0):
        if not is_end:
            lines = [[next(ids) for _ in range(x)] for x in document]
            examples += builder.pack(lines)
    assert len(examples) == len(golden["input_ids"]) > 0
    for row, (first, second) in enumerate(examples):
        tokens = [CLS, *first, SEP, *second] + [SEP] * bool(second)
        segments = [0] * (len(first) + 2) + [1] * (len(tokens) - len(first) - 2)
        padding = [0] * (128 - len(tokens))
        for name, values in (
            ("input_ids", tokens),
            ("input_mask", [1] * len(tokens)),
            ("segment_ids", segments),
        ):
            assert golden[name][row].tolist() == values + padding


@pytest.mark.skipif(
    not golden_arrays.VOCAB_FILE.exists(), reason="needs the full arrays"
)
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
