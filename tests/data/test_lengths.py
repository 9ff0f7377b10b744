"""The lengths of documents add up, whatever the order."""

import json
import random

import numpy as np
import pytest

from electra_tf.data.lengths import Lengths, table

NUMBERS = [0, 0, 1, 2, 3, 4, 7, 8, 127, 128, 2**20]


def test_a_summary_is_that_of_the_numbers():
    parts = [Lengths() for _ in range(4)]
    for number in random.Random(0).sample(NUMBERS, len(NUMBERS)):
        parts[number % 3].count(number)
    total = Lengths()
    for part in parts:
        total.add(Lengths(**json.loads(json.dumps(vars(part)))))
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


def test_the_table_has_a_column_for_each_split():
    train, held_out = Lengths(), Lengths()
    for number in NUMBERS:
        train.count(number)
    summaries = {"train": train.summary(), "held_out": held_out.summary()}
    rows = [line.split("  ") for line in table(summaries).splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert cells[0] == ["tokens in a document", "train", "held_out"]
    assert cells[1] == ["0", "2", "0"]
    assert cells[3] == ["2 to 3", "2", "0"]
    assert cells[-4] == ["1,048,576 to 2,097,151", "1", "0"]
    assert cells[-1] == ["max", "1,048,576", "-"]
