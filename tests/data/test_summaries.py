"""Counts of shards add up, whatever the order, and are read as written."""

import json
import random
import re

import numpy as np
import pytest

from electra_tf.data import build_log
from electra_tf.data.record_format import RecordKind
from electra_tf.data.summaries import Lengths, Summary

NUMBERS = [0, 0, 1, 2, 3, 4, 7, 8, 127, 128, 2**20]


def test_length_statistics_and_their_table_match_the_numbers():
    shards = [Lengths() for _ in range(4)]
    for number in random.Random(0).sample(NUMBERS, len(NUMBERS)):
        shards[number % 3].count(number)
    total = Lengths()
    for shard in shards:
        total.add(Lengths(**json.loads(json.dumps(vars(shard)))))
    found = total.summary()
    assert found["documents"] == len(NUMBERS)
    assert found["mean"] == pytest.approx(np.mean(NUMBERS), abs=0.05)
    assert (found["min"], found["max"]) == (0, 2**20)
    edges = [0, *(2**i for i in range(22))]
    counts, _ = np.histogram(NUMBERS, edges)
    expected = zip(map(str, edges), counts.tolist(), strict=False)
    assert list(found["histogram"].items()) == [
        (edge, number) for edge, number in expected if number
    ]
    table = build_log.length_table(
        {"train": found, "held_out": Lengths().summary()}
    )
    cells = [re.split(r"  +", line) for line in table.splitlines()]
    assert cells[0] == ["tokens in a document", "train", "held_out"]
    assert cells[1] == ["0", "2", "0"]
    assert cells[3] == ["2 to 3", "2", "0"]
    assert cells[-4] == ["1,048,576 to 2,097,151", "1", "0"]
    assert cells[-1] == ["max", "1,048,576", "-"]


ON_DISK = {
    "statistics": {"files": 1, "documents": 3, "text_bytes": 40},
    "packed": [[{"records": 2, "records-8-train-8": 2}, [0, 3, 1]]],
    "lengths": {
        "train": {
            "documents": 2,
            "tokens": 4,
            "shortest": 1,
            "longest": 3,
            "histogram": {"1": 1, "2": 1},
        },
        "held_out": {},
    },
    "splits": ["train"],
    "undecided": [[["a line"], 2**100, "train"]],
}


def test_summaries_on_disk_are_read_and_add_up(tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(ON_DISK))
    summary = Summary.read(str(old))
    total = Summary.empty(1, 3)
    total.add(summary)
    total.write(str(new))
    assert json.loads(new.read_text()).keys() == ON_DISK.keys()
    total.add(Summary.read(str(new)))
    assert total.statistics.documents == 6
    assert total.num_records(RecordKind(8, "train", 8)) == 4
    assert total.num_records(RecordKind(8, "held_out", 8)) == 0
    assert total.packed[0].unigrams.tolist() == [0, 6, 2]
    assert total.lengths["train"].tokens == 8
    assert total.splits == {"train"}
    assert total.undecided == 2 * summary.undecided
    assert summary.undecided[0].key == 2**100
