"""The README.md beside an exported model: what it is and how to load it.

Its first lines are the metadata that model hubs read.
"""

import itertools
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import electra_tf
from electra_tf.config.model import BertConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data.dataset_files import MANIFEST
from electra_tf.pretrain.flops import training_flops
from electra_tf.util import config_flags, files, storage
from electra_tf.util.errors import UserError

NAME = "README.md"

_CLASSES = {
    "discriminator": "ElectraForPreTraining",
    "generator": "ElectraForMaskedLM",
    "corrector": "ElectraForMaskedLM",
    "sequence_classification": "ElectraForSequenceClassification",
    "token_classification": "ElectraForTokenClassification",
    "question_answering": "ElectraForQuestionAnswering",
}
_PIPELINES = {
    "generator": "fill-mask",
    "sequence_classification": "text-classification",
    "token_classification": "token-classification",
    "question_answering": "question-answering",
}
_ABOUT = {
    "discriminator": "The discriminator tells which tokens of a text were "
    "replaced: a logit over 0 means replaced. Its encoder is what is "
    "fine-tuned.",
    "generator": "The generator fills in masks.",
    "corrector": "The corrector tells which token stood where, of a text in "
    "which some were replaced. Its encoder is what is fine-tuned.",
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
    """One network of a model.

    Attributes:
      config: of its encoder.
      num_parameters: of encoder and head.
    """

    config: BertConfig
    num_parameters: int


class Facts(NamedTuple):
    """Facts of the run that trained a model.

    Attributes:
      config: of the run; None if not known.
      manifest: of its data set; empty if not known.
      metrics: on held-out text; empty if there are none.
    """

    config: PretrainingConfig | None = None
    manifest: Mapping[str, Any] = {}
    metrics: Mapping[str, float] = {}


def facts_of_run(model_dir: pathlib.Path) -> Facts:
    """Collects what lies in the directory of a run.

    Args:
      model_dir: of a run, or any directory.
    """
    path = model_dir / "config.json"
    if not path.exists():
        return Facts()
    try:
        config = config_flags.load_config(path, PretrainingConfig)
    except UserError:  # somebody else's config.json
        return Facts()
    results = model_dir / "results" / "pretraining_eval.json"
    return Facts(
        config=config,
        manifest=_manifest(config),
        metrics=files.read_json(results) if results.exists() else {},
    )


def facts_of(config: PretrainingConfig) -> Facts:
    """Collects what is known of a run, by its configuration.

    Args:
      config: of the run.
    """
    found = facts_of_run(pathlib.Path(config.run.model_dir))
    return found._replace(config=config, manifest=_manifest(config))


def write(
    directory: pathlib.Path,
    networks: Mapping[str, Part],
    facts: Facts,
    target: str,
    *,
    step: int = 0,
    head: str = "",
) -> None:
    """Writes the card.

    Args:
      directory: of the model.
      networks: "discriminator", "generator" or both.
      facts: of the run that trained it.
      target: "tf1", "electra_tf", "hf" or "saved_model".
      step: updates done; 0 if not known.
      head: of a fine-tuned model in hf.
    """
    names = tuple(networks)
    parts = [
        _header(names, facts, target, head),
        f"# {_title(names, facts)}\n",
        *(_about(name, facts) + "\n" for name in names if not head),
        _sizes(networks),
        _training(step, facts),
        _corpus(facts.manifest),
        _metrics(facts.metrics),
        _loading(names, target, head),
        f"Written by electra_tf {electra_tf.__version__}.\n",
    ]
    text = "\n".join(part for part in parts if part)
    files.atomic_write_text(directory / NAME, text)


def _manifest(config: PretrainingConfig) -> Mapping[str, Any]:
    named = storage.split_patterns(config.data.pretrain_tfrecords)[0]
    directory = pathlib.Path(named).parent if named else config.records_dir
    path = pathlib.Path(directory, MANIFEST)
    return files.read_json(path) if path.exists() else {}


def _header(
    networks: tuple[str, ...], facts: Facts, target: str, head: str
) -> str:
    library = "transformers" if target == "hf" else "tf-keras"
    lines = ["---", f"library_name: {library}"]
    pipeline = _PIPELINES.get(head or networks[0])
    if pipeline and len(networks) == 1:
        lines.append(f"pipeline_tag: {pipeline}")
    lines += ["tags:", "- electra", "- electra_tf"]
    if facts.metrics:
        lines += ["metrics:", *(f"- {name}" for name in sorted(facts.metrics))]
    # Not known to this program, and asked for by hubs.
    lines += ["license: unknown", "---", ""]
    return "\n".join(lines)


def _title(networks: tuple[str, ...], facts: Facts) -> str:
    if facts.config is not None:
        return facts.config.run.model_name
    return " and ".join(f"ELECTRA {name}" for name in networks)


def _about(network: str, facts: Facts) -> str:
    if facts.config is not None:
        if facts.config.objective.traits.answers == "energies":
            return _ABOUT_ENERGIES
    return _ABOUT[network]


def _sizes(networks: Mapping[str, Part]) -> str:
    parts = networks.values()
    counts = (f"{part.num_parameters:,}" for part in parts)
    rows = [("parameters", *counts)]
    for size in _SIZES:
        values = (f"{getattr(part.config, size):,}" for part in parts)
        rows.append((size, *values))
    return "## Networks\n\n" + _table(("", *networks), rows)


def _training(step: int, facts: Facts) -> str:
    rows = [("updates", f"{step:,}")] if step else []
    if facts.config is not None:
        config, phases = facts.config, facts.config.phases
        vocab_size = facts.manifest.get("vocab_size")
        if step and vocab_size:
            cost = training_flops(config, vocab_size, step)
            rows.append(("training FLOPs", f"{cost:.3e}"))
        rows += [
            ("objective", config.objective.objective),
            ("rows in an update", _in_turn(p.batch_size for p in phases)),
            ("tokens in a row", _in_turn(p.max_seq_length for p in phases)),
            ("share of tokens chosen", f"{config.masking.mask_prob}"),
            ("learning rate", f"{config.optimizer.learning_rate}"),
            ("seed", f"{config.training.seed}"),
        ]
    if not rows:
        return ""
    return "## Pre-training\n\n" + _table(("", ""), rows)


def _in_turn(numbers: Iterable[int]) -> str:
    """Lists the numbers of phases, those that do not change once."""
    changes = (number for number, _ in itertools.groupby(numbers))
    return ", then ".join(f"{number:,}" for number in changes)


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
    return "## Corpus\n\n" + _table(("", ""), rows)


def _metrics(metrics: Mapping[str, float]) -> str:
    if not metrics:
        return ""
    rows = [(name, f"{value:.6g}") for name, value in metrics.items()]
    return "## On held-out text\n\n" + _table(("metric", "value"), rows)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _loading(networks: tuple[str, ...], target: str, head: str) -> str:
    name = networks[0]
    parts = []
    if not head and target != "saved_model":
        parts.append(
            _IN_KERAS.format(
                name=_OF_KERAS[name], network=name, logits=_LOGITS[name]
            )
        )
    if target == "saved_model":
        parts.append(_IN_TENSORFLOW.format(network=name))
    elif target == "hf":
        parts.append(_IN_TRANSFORMERS.format(name=_CLASSES[head or name]))
    else:
        parts.append(_CONVERT)
    return "## How to load it\n\n" + "\n".join(parts)


_OF_KERAS = {
    "discriminator": "ElectraDiscriminator",
    "generator": "ElectraGenerator",
    "corrector": "ElectraGenerator",
}
_LOGITS = {
    "discriminator": "[B, L], over 0: replaced",
    "generator": "[B, L, V], of each word",
    "corrector": "[B, L, V], of each word",
}
_IN_KERAS = """\
In Keras, from this directory:

```python
import numpy as np
import electra_tf

network = electra_tf.{name}.from_checkpoint(".", "{network}")
input_ids = np.array([[1, 2, 3]])  # of the vocabulary; or texts
outputs = network({{"input_ids": input_ids}})
outputs["sequence_output"]  # [B, L, H]
outputs["logits"]  # {logits}
```
"""
_IN_TENSORFLOW = """\
In TensorFlow, from this directory:

```python
import tensorflow as tf
import tensorflow_text  # the operations that read text

model = tf.saved_model.load("{network}/text/1")
model.serving_default(tf.constant(["the chef ate the meal"]))
```

`{network}/ids/1` reads ids and needs no tensorflow_text. Each has a signature
"encode" too, for the encoder's states.
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
