"""Compares this package with arrays that the original code saved.

python tools/replication/parity.py --golden=DIR [--vocab_file=FILE] [--write]

DIR has the directories `model` and `optimizer`, and may have `data`, which
needs the original's uncased vocabulary as --vocab_file. --write puts the tables
into docs/parity.md.
"""

import argparse
import collections
import os
import pathlib
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tables
from original_parity import data, networks, optimizer

# Columns of the table of networks: header -> quantities, of which the worst
# difference is shown.
_COLUMNS = {
    "masks, ids, labels": (
        "mask/input_ids",
        "mask/masked_lm_positions",
        "mask/masked_lm_ids",
        "mask/masked_lm_weights",
        "mlm/preds",
        "mlm/weights",
        "fake/input_ids",
        "fake/is_fake_tokens",
        "fake/sampled_tokids",
        "disc/preds",
        "disc/labels",
        "cloze/preds",
        "cloze/weights",
    ),
    "states": (
        "token_embeddings",
        "embedding_output",
        "all_layers",
        "sequence_output",
    ),
    "attention": ("attn_maps",),
    "logits": ("mlm/logits", "mlm/log_probs", "disc/logits", "disc/probs")
    + ("cloze/logits", "cloze/log_probs"),
    "losses": ("loss", "per_example_loss", "total_loss"),
    "gradients": ("gradients",),
    "gradient norm": ("gradient norm",),
    "3 updates": ("after update 3",),
}


def main() -> None:
    """Prints the tables, and writes them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--golden", type=pathlib.Path, required=True)
    parser.add_argument("--vocab_file", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    texts = {
        "networks": _networks(options.golden / "model"),
        "optimizer": _optimizer(options.golden / "optimizer"),
    }
    if options.vocab_file:
        directory = options.golden / "data"
        texts["packing"] = _packing(directory, options.vocab_file)
        texts["tokenization"] = _tokenization(directory, options.vocab_file)
    for name, text in texts.items():
        print(f"{name}\n\n{text}\n")
        if options.write:
            tables.publish(name, text)


def _networks(directory: pathlib.Path) -> str:
    rows = []
    for name in networks.cases(directory):
        found = list(networks.compare(networks.load(directory, name)))
        rows.append([name, *map(_text, _worst(found))])
    return tables.table(["configuration", *_COLUMNS], rows)


def _worst(found: list[networks.Difference]) -> Iterator[float | None]:
    for endings in _COLUMNS.values():
        yield max(
            (
                difference.value
                for difference in found
                if difference.quantity in endings
                or difference.quantity.rpartition("/")[2] in endings
            ),
            default=None,
        )


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1e}" if value else "equal"


def _optimizer(directory: pathlib.Path) -> str:
    rows = []
    for name in optimizer.cases(directory):
        result = optimizer.compare(directory, name)
        reads = "".join("+" if ahead else "0" for ahead in result.steps_ahead)
        rows.append(
            [
                name,
                str(len(reads)),
                _text(result.weights),
                _text(result.slots),
                reads,
            ]
        )
    return tables.table(
        [
            "case",
            "updates",
            "weights",
            "slots",
            "rate of step s (0) or s+1 (+)",
        ],
        rows,
    )


def _packing(directory: pathlib.Path, vocab_file: str) -> str:
    rows = []
    for name in data.data_sets(directory):
        result = data.compare_packing(directory, name, vocab_file)
        rows.append([name, str(result.num_records), str(result.num_equal)])
    return tables.table(["data set", "records", "equal id for id"], rows)


def _tokenization(directory: pathlib.Path, vocab_file: str) -> str:
    found = collections.defaultdict(set)
    for row in data.compare_tokenization(directory, vocab_file):
        found[row.text, row.unicode].add((row.tokenizer, row.mode))
    rows = [
        [
            _escaped(text),
            version,
            " and ".join(sorted({tokenizer for tokenizer, _ in where})),
            f"{len({mode for _, mode in where})} of 4",
        ]
        for (text, version), where in sorted(found.items())
    ]
    head = ["string", "the original's Unicode", "tokenizers", "modes"]
    return tables.table(head, rows)


def _escaped(text: str) -> str:
    escaped = ascii(text)[1:-1]
    return escaped if len(escaped) <= 44 else f"{escaped[:41]}..."


if __name__ == "__main__":
    main()
