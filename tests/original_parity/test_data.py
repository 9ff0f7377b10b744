"""--packing=original gives the original's records; word pieces are its own."""

import golden_arrays
import numpy as np
import pytest

from electra_tf.model.tokenization import Vocabulary
from original_parity import data

DIRECTORY = golden_arrays.ROOT / "data"
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


def test_packing_gives_the_originals_records():
    golden = np.load(golden_arrays.HERE / "golden/packing.npz")
    ids, lines = iter(golden["ids"].tolist()), []
    for length in golden["line_lengths"]:
        is_end = length < 0
        lines.append(None if is_end else [next(ids) for _ in range(length)])
    examples = data.pack(
        lines, int(golden["max_seq_length"]), int(golden["seed"])
    )
    words = [f"w{i}" for i in range(103)]
    words[0], words[100:103] = "[PAD]", ["[UNK]", "[CLS]", "[SEP]"]
    vocabulary = Vocabulary((*words, "[MASK]"))
    ours = data.rows(examples, 128, vocabulary)
    for name, array in ours.items():
        np.testing.assert_array_equal(array, golden[name])


@needs_all
@pytest.mark.parametrize(
    "name", data.data_sets(DIRECTORY) if DIRECTORY.exists() else []
)
def test_data_sets_are_the_originals(name):
    result = data.compare_packing(
        DIRECTORY, name, str(golden_arrays.VOCAB_FILE)
    )
    assert result.num_equal == result.num_records > 0


@needs_all
def test_one_other_token_is_one_other_record(monkeypatch):
    """So the test of the data sets can fail."""
    pack = data.pack

    def other(*args):
        (first, second), *examples = pack(*args)
        return [([first[0] + 1, *first[1:]], second), *examples]

    monkeypatch.setattr(data, "pack", other)
    name, vocab_file = "seq512", str(golden_arrays.VOCAB_FILE)
    result = data.compare_packing(DIRECTORY, name, vocab_file)
    assert result.num_equal == result.num_records - 1


@needs_all
def test_word_pieces_differ_only_in_characters_new_to_unicode():
    different = list(
        data.compare_tokenization(DIRECTORY, str(golden_arrays.VOCAB_FILE))
    )
    assert different, "the strings hold such characters"
    for row in different:
        assert set(ASSIGNED_SINCE[row.unicode]) & set(row.text), row
