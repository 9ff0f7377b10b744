"""The model card (README.md) beside an exported model.

Its first lines are the metadata that model hubs read.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import electra_tf
from electra_tf.checkpoint.hugging_face.config import (
    MASKED_LM,
    PRE_TRAINING,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
)
from electra_tf.config.model import BertConfig
from electra_tf.util import files, storage, tables

NAME = "README.md"


class _CardText(NamedTuple):
    """The card's text about a network, or about a fine-tuned model."""

    transformers: str
    pipeline: str = ""
    about: str = ""
    keras: str = ""
    logits: str = ""


_TEXTS = {
    "discriminator": _CardText(
        PRE_TRAINING,
        about="The discriminator tells which tokens of a text were replaced: "
        "a logit over 0 means replaced. Its encoder is what is fine-tuned.",
        keras="ElectraDiscriminator",
        logits="[B, L], over 0: replaced",
    ),
    "generator": _CardText(
        MASKED_LM,
        "fill-mask",
        "The generator fills in masks.",
        "ElectraGenerator",
        "[B, L, V], of each word",
    ),
    "corrector": _CardText(
        MASKED_LM,
        about="The corrector predicts the original tokens of a text in which "
        "some were replaced. Its encoder is what is fine-tuned.",
        keras="ElectraGenerator",
        logits="[B, L, V], of each word",
    ),
    "encoder": _CardText(
        "ElectraModel",
        about="The encoder gives each token of a text a vector.",
        keras="ElectraBackbone",
    ),
    "sequence_classification": _CardText(
        SEQUENCE_CLASSIFICATION, "text-classification"
    ),
    "token_classification": _CardText(
        TOKEN_CLASSIFICATION, "token-classification"
    ),
    "question_answering": _CardText(QUESTION_ANSWERING, "question-answering"),
}
_ABOUT_ENERGIES = (
    "The network gives each token an energy E: exp(-E) is its probability "
    "given all others, unnormalised. Its encoder is what is fine-tuned."
)
_SIZES = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "embedding_size",
    "vocab_size",
    "max_position_embeddings",
)


class Part(NamedTuple):
    """One network of a model."""

    config: BertConfig
    num_parameters: int


class Facts(NamedTuple):
    """Facts about the run that trained a model, as far as they are known."""

    model_name: str = ""
    has_energies: bool = False
    training: Mapping[str, str] = {}
    manifest: Mapping[str, Any] = {}
    metrics: Mapping[str, float] = {}


NO_FACTS = Facts()


def write(
    directory: storage.Path,
    networks: Mapping[str, Part],
    facts: Facts,
    target: str,
    *,
    step: int = 0,
    head: str = "",
    usage: str = "",
) -> None:
    """Writes the card."""
    names = tuple(networks)
    title = " and ".join(f"ELECTRA {name}" for name in names)
    updates = [("updates", f"{step:,}")] if step else []
    metrics = [(name, f"{x:.6g}") for name, x in facts.metrics.items()]
    parts = [
        _header(names, facts, target, head),
        f"# {facts.model_name or title}\n",
        *(
            (_ABOUT_ENERGIES if facts.has_energies else _TEXTS[name].about)
            + "\n"
            for name in names
            if not head
        ),
        _sizes(networks),
        _table("Pre-training", ("", ""), [*updates, *facts.training.items()]),
        _corpus(facts.manifest),
        _table("On held-out text", ("metric", "value"), metrics),
        _loading(names, target, head, usage=usage),
        f"Written by electra_tf {electra_tf.__version__}.\n",
    ]
    text = "\n".join(part for part in parts if part)
    files.atomic_write_text(directory / NAME, text)


def _header(
    networks: tuple[str, ...], facts: Facts, target: str, head: str
) -> str:
    library = "transformers" if target == "hf" else "tf-keras"
    lines = ["---", f"library_name: {library}"]
    pipeline = _TEXTS[head or networks[0]].pipeline
    if pipeline:
        lines.append(f"pipeline_tag: {pipeline}")
    lines += ["tags:", "- electra", "- electra_tf"]
    if facts.metrics:
        lines += ["metrics:", *(f"- {name}" for name in sorted(facts.metrics))]
    # Hubs ask for a license, which is not known here.
    lines += ["license: unknown", "---", ""]
    return "\n".join(lines)


def _sizes(networks: Mapping[str, Part]) -> str:
    parts = networks.values()
    counts = (f"{part.num_parameters:,}" for part in parts)
    rows = [("parameters", *counts)]
    for size in _SIZES:
        values = (f"{getattr(part.config, size):,}" for part in parts)
        rows.append((size, *values))
    return _table("Networks", ("", *networks), rows)


def _corpus(manifest: Mapping[str, Any]) -> str:
    if not manifest:
        return ""
    counts = manifest["counts"]
    rows = [
        ("sources", ", ".join(manifest["corpus"])),
        ("documents", f"{counts['documents']:,}"),
        ("bytes of text", f"{counts['text_bytes']:,}"),
        ("tokens read", f"{counts['tokens_read']:,}"),
        ("tokens dropped", f"{counts['tokens_dropped']:,}"),
        ("packing", manifest["packing"]),
        ("padding", f"{counts['padding_share']:.1%}"),
        ("lower-cased", str(manifest["do_lower_case"])),
        ("accents removed", str(manifest["strip_accents"])),
    ]
    return _table("Corpus", ("", ""), rows)


def _table(
    title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]
) -> str:
    """Returns a section with a table; "" if it has no rows."""
    return f"## {title}\n\n{tables.markdown([head, *rows])}" if rows else ""


def _loading(
    networks: tuple[str, ...], target: str, head: str, *, usage: str
) -> str:
    name = networks[0]
    known = _TEXTS[head or name]
    parts = []
    if not head and target != "saved_model":
        in_keras = _IN_KERAS if known.logits else _ENCODER_IN_KERAS
        # Alone, a corrector is stored as a masked language model.
        stored = "generator" if networks == ("corrector",) else name
        parts.append(in_keras.format(network=stored, **known._asdict()))
    if target == "saved_model":
        parts.append(usage)
    elif target == "hf":
        parts.append(_IN_TRANSFORMERS.format(name=known.transformers))
    else:
        parts.append(_CONVERT)
    return "## How to load it\n\n" + "\n".join(parts)


_IN_KERAS = """\
In Keras, from this directory:

```python
import numpy as np
import electra_tf

network = electra_tf.{keras}.from_checkpoint(".", "{network}")
input_ids = np.array([[1, 2, 3]])  # of the vocabulary; or texts
outputs = network({{"input_ids": input_ids}})
outputs["sequence_output"]  # [B, L, H]
outputs["logits"]  # {logits}
```
"""
_ENCODER_IN_KERAS = """\
In Keras, from this directory:

```python
import electra_tf

backbone = electra_tf.{keras}.from_checkpoint(".")
backbone.embed(["the chef ate the meal"])  # [1, H]
```
"""
_IN_TRANSFORMERS = """\
In transformers, from this directory:

```python
from transformers import AutoTokenizer, {name}

tokenizer = AutoTokenizer.from_pretrained(".")
model = {name}.from_pretrained(".")
model(**tokenizer("the chef ate the meal", return_tensors="pt"))
```
"""
_CONVERT = """\
For transformers, and for TensorFlow without electra_tf:

```sh
python -m electra_tf.convert_checkpoint --input=. --target_format=hf \\
  --output=DIR
python -m electra_tf.export_saved_model --help
```
"""
