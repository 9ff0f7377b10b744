"""Converts checkpoints to other formats and back; compares with transformers.

python tools/replication/interchange.py --golden=DIR --vocab_file=FILE [--write]

DIR has the directories `model` and `cli_ckpt` with checkpoints that the
original code saved, FILE is their vocabulary. Needs the extras [hf] and
[hf-test]. --write puts the table into docs/parity.md.
"""

import argparse
import os
import pathlib
import tempfile
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tables
import torch
import transformers

from electra_tf.checkpoint import bundles, checkpoint_formats, loading, weights

_SIZES = {
    "small-like": {"embedding_size": 16, "hidden_size": 32},
    "base-like": {"embedding_size": 32, "hidden_size": 32},
}
_CLASSES = ("ElectraForPreTraining", "ElectraForMaskedLM")
_LENGTH = 24


def main() -> None:
    """Prints the table, and writes it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--golden", type=pathlib.Path, required=True)
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    paths = [*options.golden.glob("*ckpt*/*/*.index")]
    paths += options.golden.glob("model/ckpt_*/*-3.index")
    for path in sorted(paths):
        rows += _original_round_trip(path, options)
    for size in _SIZES:
        for name in _CLASSES:
            rows.append(
                _transformers_round_trip(size, name, options.vocab_file)
            )
    text = tables.table(["from", "by way of", "arrays", "result"], rows)
    print(text)
    if options.write:
        tables.publish("interchange", text)


def _original_round_trip(
    path: pathlib.Path, options: argparse.Namespace
) -> Iterator[list[str]]:
    """Converts a checkpoint of the original to each format and back."""
    before = bundles.read(str(path).removesuffix(".index"))
    name = str(path.relative_to(options.golden)).removesuffix(".index")
    weights_read = checkpoint_formats.read(
        str(path), vocab_file=options.vocab_file, num_attention_heads=2
    )
    for target in ("electra_tf", "hf"):
        if target == "hf" and (weights_read.architecture.is_two_tower):
            yield [
                name,
                target,
                "-",
                "refused: two towers, which Hugging Face lacks",
            ]
            continue
        if target == "hf" and weights_read.architecture.tasks:
            yield [name, target, "-", "refused: a fine-tuned head"]
            continue
        with tempfile.TemporaryDirectory() as scratch:
            converted, restored = f"{scratch}/there", f"{scratch}/back"
            checkpoint_formats.write(converted, weights_read, target)
            reloaded = checkpoint_formats.read(converted)
            checkpoint_formats.write(restored, reloaded, "tf1")
            after = bundles.read(bundles.find(restored))
        kept = [n for n in before if target != "hf" or _is_weight(n)]
        others = [n for n in after if n not in before]
        equal = sum(np.array_equal(before[n], after.get(n)) for n in kept)
        note = f"{equal} of {len(kept)} equal bit for bit"
        yield [
            name,
            f"{target}, tf1",
            str(len(kept)),
            note + _additional(others),
        ]


def _is_weight(name: str) -> bool:
    return "/adam_" not in name and name != "global_step"


def _additional(others: list[str]) -> str:
    return f", {len(others)} more" if others else ""


def _transformers_round_trip(
    size: str, name: str, vocab_file: str
) -> list[str]:
    """Compares logits with transformers', with random weights, both ways."""
    config = transformers.ElectraConfig(
        vocab_size=512,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        **_SIZES[size],
    )
    theirs = getattr(transformers, name)(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in theirs.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(0.2 * noise)
    random = np.random.default_rng(0)
    ids = random.integers(5, 512, (4, _LENGTH)).astype(np.int32)
    mask = (np.arange(_LENGTH) < [[24], [17], [9], [3]]).astype(np.int32)
    with tempfile.TemporaryDirectory() as scratch:
        theirs.save_pretrained(f"{scratch}/one")
        weights_read = checkpoint_formats.read(
            f"{scratch}/one", vocab_file=vocab_file
        )
        network = loading.make(
            weights.select(weights_read, weights_read.networks[0])
        )
        checkpoint_formats.write(f"{scratch}/two", weights_read, "hf")
        reloaded = getattr(transformers, name).from_pretrained(f"{scratch}/two")
        states = network.encoder(ids, mask, np.zeros_like(ids)).sequence_output
    table = network.encoder.embeddings.word_embeddings
    extra = [table] if name == "ElectraForMaskedLM" else []
    ours = network.head(states, *extra).numpy()
    with torch.no_grad():
        inputs = {
            "input_ids": torch.tensor(ids, dtype=torch.long),
            "attention_mask": torch.tensor(mask),
        }
        logits = [m.eval()(**inputs).logits.numpy() for m in (theirs, reloaded)]
    kept = mask > 0
    distance = np.abs(ours - logits[0])[kept].max()
    is_equal = np.array_equal(logits[0], logits[1])
    return [
        f"{name}, {size}",
        "hf, ours, hf",
        str(len(weights_read.arrays)),
        f"logits: ours {distance:.1e} from theirs; after the round trip "
        + ("equal" if is_equal else "NOT equal"),
    ]


if __name__ == "__main__":
    main()
