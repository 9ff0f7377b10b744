"""Repeats the original's tokenization and packing.

Files in the directory: `meta.json` and `<set>.npz` with packed data sets made
from `text200.txt`; `tokenization*.json` with strings and their word pieces, one
file for each version of Python, and thus of Unicode, that the original ran on.
"""

import json
import pathlib
import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from reference_tokenizer import FullTokenizer

from electra_tf.data.packing import ExampleBuilder
from electra_tf.model.graph_tokenization import GraphTokenizer
from electra_tf.model.tokenization import Vocabulary


class Packing(NamedTuple):
    """How many records of a data set equal the original's, id for id."""

    num_equal: int
    num_records: int


class TokenizationDifference(NamedTuple):
    """A string whose word pieces differ from the original's."""

    tokenizer: str
    unicode: str
    mode: str
    text: str


def data_sets(directory: pathlib.Path) -> list[str]:
    """Returns the names of the packed data sets."""
    meta = json.loads((directory / "meta.json").read_text())
    return [name for name in meta if (directory / f"{name}.npz").exists()]


def compare_packing(
    directory: pathlib.Path, name: str, vocab_file: str
) -> Packing:
    """Packs the text of a data set with its seed, and compares the records."""
    meta = json.loads((directory / "meta.json").read_text())[name]
    tokenizer = FullTokenizer(
        vocab_file, meta["do_lower_case"], meta["strip_accents"]
    )
    text = (directory / "text200.txt").read_text(encoding="utf-8")
    lines = [
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(line))
        if line.strip()
        else None
        for line in text.split("\n")
    ]
    if not meta["blanks_separate_docs"]:
        lines = [line for line in lines if line is not None]
    examples = pack(lines, meta["max_seq_length"], meta["seed"])
    golden = np.load(directory / f"{name}.npz")
    ours = rows(examples, meta["max_seq_length"], tokenizer.vocabulary)
    theirs = np.stack([golden[key] for key in ours], 1)  # [records, 3, L]
    our_records = np.stack(list(ours.values()), 1)
    num_equal = 0
    if len(our_records) == len(theirs):
        num_equal = int((our_records == theirs).all((1, 2)).sum())
    return Packing(num_equal, len(theirs))


def pack(
    lines: list[list[int] | None], max_seq_length: int, seed: int
) -> list[tuple[list[int], list[int]]]:
    """Packs lines by the original's rules."""
    builder = ExampleBuilder(max_seq_length, random.Random(seed))
    examples = []
    for line in [*lines, None]:
        made = (
            builder.end_document() if line is None else builder.add_line(line)
        )
        examples += made
    return examples


def rows(
    examples: list[tuple[list[int], list[int]]],
    max_seq_length: int,
    vocabulary: Vocabulary,
) -> dict[str, np.ndarray]:
    """Converts examples to records."""
    shape = (len(examples), max_seq_length)
    ids, mask, segments = (np.zeros(shape, int) for _ in range(3))
    sep = vocabulary.sep_id
    for row, (first, second) in enumerate(examples):
        tokens = [vocabulary.cls_id, *first, sep, *second]
        tokens += [sep] * bool(second)
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
        segments[row, len(first) + 2 : len(tokens)] = 1
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def compare_tokenization(
    directory: pathlib.Path, vocab_file: str
) -> Iterator[TokenizationDifference]:
    """Tokenizes the original's strings, in Python and in TensorFlow."""
    for path in sorted(directory.glob("tokenization*.json")):
        golden = json.loads(path.read_text())
        for mode, theirs in golden["modes"].items():
            lower, strip = (part.endswith("True") for part in mode.split(","))
            reference = FullTokenizer(vocab_file, lower, strip)
            vocabulary = reference.vocabulary
            graph = GraphTokenizer(vocabulary, lower, strip)
            ids = graph.tokenize(golden["strings"]).to_list()
            for row, text in enumerate(golden["strings"]):
                ours = {
                    "python": reference.tokenize(text),
                    "graph": [vocabulary.tokens[i] for i in ids[row]],
                }
                expected = theirs[row]["tokens"]
                for kind, pieces in ours.items():
                    if pieces != expected:
                        yield TokenizationDifference(
                            kind, golden["unicode"], mode, text
                        )
