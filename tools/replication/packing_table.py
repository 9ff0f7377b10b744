"""Counts what each way of packing makes of a corpus.

python tools/replication/packing_table.py --corpus=FILE --vocab_file=FILE \
    [--lengths=128,512] [--split_sentences] [--num_processes=N]

Builds a data set for each length and each choice of --packing in a temporary
directory and prints a table of their manifests. Padding is a share of all
places in the records; a document that is cut counts once for each piece.
"""

import argparse
import os
import tempfile
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tables

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import dataset_builder, runners, vocabularies

PACKINGS = ("original", "carry", "packed")
_HEAD = (
    "tokens in a row",
    "packing",
    "tokens read",
    "kept",
    "dropped",
    "padding",
    "records",
    "documents in a record",
)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--lengths", default="128,512")
    parser.add_argument("--split_sentences", action="store_true")
    parser.add_argument("--num_processes", type=int, default=1)
    options = parser.parse_args()
    rows = [
        _row(_build(_config(options, int(length), packing), options))
        for length in options.lengths.split(",")
        for packing in PACKINGS
    ]
    print(tables.table(_HEAD, rows))


def _config(
    options: argparse.Namespace, length: int, packing: str
) -> CorpusConfig:
    return CorpusConfig(
        corpus=tuple(options.corpus.split(",")),
        vocab_file=options.vocab_file,
        max_seq_length=length,
        packing=packing,
        split_sentences=options.split_sentences,
        held_out_fraction=0.0,
    )


def _build(config: CorpusConfig, options: argparse.Namespace) -> dict[str, Any]:
    vocabulary = vocabularies.open_vocabulary(config, config.vocab_file)
    with tempfile.TemporaryDirectory() as directory:
        return dataset_builder.build(
            config,
            vocabulary,
            output_dir=directory,
            runner=runners.LocalRunner(options.num_processes),
        )


def _row(manifest: dict[str, Any]) -> list[str]:
    counts = manifest["counts"]
    dropped = counts["tokens_dropped"] / counts["tokens_read"]
    return [
        str(manifest["max_seq_length"]),
        manifest["packing"],
        f"{counts['tokens_read']:,}",
        f"{1 - dropped:.2%}",
        f"{dropped:.2%}",
        f"{counts['padding_share']:.2%}",
        f"{counts['records']:,}",
        f"{counts['examples'] / counts['records']:.2f}",
    ]


if __name__ == "__main__":
    main()
