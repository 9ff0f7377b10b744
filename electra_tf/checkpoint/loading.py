"""Checkpoints in three formats, and Keras networks with their weights.

tf1: the original's, a tensor bundle with its names, and optionally vocab.txt.
`write` adds an `architecture.json`, which the original ignores, of the settings
that shapes do not determine.

electra_tf: the same, or, in a run, with its `config.json`. The directory of a
fine-tuning trial stands for that of its model.

hf: Hugging Face's, a directory of one network with config.json and
model.safetensors, or one with such directories, named as in `NETWORKS`.

Only arrays, JSON and text are ever read, never code.
"""

import dataclasses
import functools
import glob
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from etils import epath

from electra_tf.checkpoint import architecture, bundles, hugging_face, weights
from electra_tf.checkpoint.weights import NETWORKS, Weights, select
from electra_tf.config.corpus import VOCABULARY_FILES
from electra_tf.model import text_reader
from electra_tf.model.layers import Policy
from electra_tf.model.networks import (
    ElectraDiscriminator,
    ElectraGenerator,
    EncoderWithHead,
)
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files
from electra_tf.util.errors import UserError, advise
from electra_tf.util.flags import CONFIG_FILE, stored_inputs

_ARCHITECTURE_FILE = "architecture.json"
CALIBRATION_FILE = "calibration.json"
# Settings of the text and the labels, kept as they are in `Weights`.
_TEXT_FIELDS = (
    "do_lower_case",
    "strip_accents",
    "max_seq_length",
    "labels",
    "value_range",
    "task_kind",
    "problem_type",
    "objective",
)
_CLASSES = {
    architecture.DISCRIMINATOR_HEAD: ElectraDiscriminator,
    architecture.GENERATOR_HEAD: ElectraGenerator,
}

# Of a trial of fine-tuning, <task>_model_<number>[_restart_<n>]:
TRIAL_MODEL = "model"
TASK_FILE = "task.json"
RESULT_FILE = "result.json"


def find_model(path: str | os.PathLike[str]) -> str:
    """Returns the model directory of a trial; any other path unchanged."""
    trial = pathlib.Path(path).resolve()
    if not (trial / TRIAL_MODEL / TASK_FILE).exists():
        return os.fspath(path)
    pattern = f"{glob.escape(trial.name)}_restart_*/{RESULT_FILE}"
    if restarts := sorted(trial.parent.glob(pattern)):
        raise UserError(
            f"{path} failed and was restarted; see {restarts[-1].parent}."
        )
    return os.path.join(path, TRIAL_MODEL)


def read(
    path: str,
    *,
    vocab_file: str = "",
    num_attention_heads: int | None = None,
    generator_num_attention_heads: int | None = None,
) -> Weights:
    """Reads a checkpoint, with the vocabulary and settings beside it."""
    path = find_model(path)
    vocabulary = Vocabulary.from_file(vocab_file) if vocab_file else None
    heads = {
        "num_attention_heads": num_attention_heads,
        "generator_num_attention_heads": generator_num_attention_heads,
    }
    if format_of(path) == "hf":
        loaded = _read_hugging_face(path)
        own = loaded.vocabulary
        loaded = dataclasses.replace(loaded, vocabulary=vocabulary or own)
    else:
        loaded = _read_bundle(path, heads, vocabulary)
    encoders = (loaded.architecture.encoder, loaded.architecture.generator)
    for (name, given), encoder in zip(heads.items(), encoders, strict=True):
        stored = encoder and encoder.num_attention_heads
        if None not in (given, stored) and given != stored:
            raise UserError(f"{loaded.origin} has {name}={stored}, not {given}")
    if loaded.vocabulary is not None:
        rows = loaded.architecture.encoder.vocab_size
        text_reader.require_vocabulary_size(loaded.vocabulary, rows)
    weights.check_finite(loaded)
    return weights.with_case(loaded)


def _read_hugging_face(path: str) -> Weights:
    paths = [pathlib.Path(part) for part in bundles.split_paths(path)]
    if len(paths) == 1 and not (paths[0] / CONFIG_FILE).exists():
        parts = [paths[0] / network for network in NETWORKS]
        paths = [x for x in parts if (x / CONFIG_FILE).exists()] or paths
    return functools.reduce(weights.merge, map(hugging_face.read, paths))


def _read_bundle(
    path: str, heads: Mapping[str, int | None], vocabulary: Vocabulary | None
) -> Weights:
    """Reads a bundle; what is given fills in what is not stored beside it."""
    prefix = bundles.find(path)
    arrays = {
        name: array
        for name, array in bundles.read(prefix).items()
        if not name.startswith("loss_scale")  # of version 0.1
    }
    stored = _stored_settings(prefix.parent)
    # A run stores null for the default number, which is that of `infer`.
    heads = {name: stored.get(name, given) for name, given in heads.items()}
    try:
        sizes = architecture.infer(
            {n: x.shape for n, x in arrays.items()}, **heads
        )
    except UserError as error:
        raise UserError(f"{prefix}: {error}") from error
    inferred = {"max_position_embeddings"}  # from shapes
    common = (architecture.COMMON_FIELDS - inferred) & stored.keys()
    text = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in stored.items()
        if name in _TEXT_FIELDS and value is not None
    }
    is_known = "num_attention_heads" in stored
    return Weights(
        origin=str(prefix),
        arrays=arrays,
        architecture=sizes.with_fields(**{x: stored[x] for x in common}),
        vocabulary=vocabulary or find_vocabulary(prefix.parent, stored),
        heads_are_assumed=not is_known and heads["num_attention_heads"] is None,
        **text,
    )


def _stored_settings(directory: epath.Path) -> dict[str, Any]:
    """Returns the settings beside a bundle that its shapes do not determine."""
    if (directory / _ARCHITECTURE_FILE).exists():
        stored = files.read_json(directory / _ARCHITECTURE_FILE)
        if (directory / TASK_FILE).exists():
            tasks = files.read_json(directory / TASK_FILE)["tasks"].values()
            task = next(iter(tasks)) if len(tasks) == 1 else {}
            stored["task_kind"] = task.get("kind")
            stored["value_range"] = task.get("value_range")
            stored["problem_type"] = task.get("problem_type")
        return stored
    if not (directory / CONFIG_FILE).exists():
        return {}
    config = files.read_json(directory / CONFIG_FILE)
    objective = config.get("objective", {}).get("objective", "")
    stored = {**config.get("corpus", {}), **config.get("model", {})}
    return stored | {"objective": objective}


def find_vocabulary(
    directory: epath.Path, settings: Mapping[str, Any]
) -> Vocabulary | None:
    """Finds the vocabulary of the bundles in a directory.

    A run trains with the vocabulary that its configuration names, which need
    not be the only one in its data directory, and stores its digest.
    """
    is_known = "tokenizer" in settings
    kinds = [settings["tokenizer"]] if is_known else VOCABULARY_FILES
    names = [VOCABULARY_FILES[kind] for kind in kinds]
    paths = [directory / name for name in names]  # the likeliest first
    if vocab_file := settings.get("vocab_file"):
        paths.append(epath.Path(vocab_file))
        names = [os.path.basename(vocab_file)]
    if directory.parent.name == "models":
        paths += [directory.parent.parent / name for name in names]
    digest = stored_inputs(directory).get("vocabulary")
    paths = [path for path in paths if path.exists()]
    for path in paths:
        vocabulary = Vocabulary.from_file(str(path))
        if digest in (None, vocabulary.sha256):
            return vocabulary
    if paths:
        raise UserError(
            f"{directory} was trained with another vocabulary than "
            f"{', '.join(map(str, paths))}: give its vocab_file."
        )
    return None


def write(
    directory: str | os.PathLike[str],
    written: Weights,
    target_format: str,
    *,
    networks: Sequence[str] = NETWORKS,
    kind: str = "",
) -> list[epath.Path]:
    """Writes weights in one of the formats, to a new or empty directory."""
    known = (*written.networks, weights.ENCODER)
    selected = [name for name in networks if name in known] or networks[:1]
    parts = {name: select(written, name) for name in selected}
    root = epath.Path(directory)
    if root.exists() and any(root.iterdir()):
        raise UserError(f"The output directory is not empty: {root}")
    if target_format == "hf":
        paths = [root / x if len(parts) > 1 else root for x in parts]
        for path, part in zip(paths, parts.values(), strict=True):
            hugging_face.write(path, part, kind=kind)
        return paths
    if len(networks) == 1:
        written = parts[networks[0]]
    sharing = written.architecture.generator_sharing
    if target_format == "tf1" and sharing not in ("embeddings", "all", "none"):
        raise UserError(
            f"The original has no generator_sharing={sharing}: convert "
            "networks one by one, with --network."
        )
    describe(root, written)
    variables = {name: tf.Variable(x) for name, x in written.arrays.items()}
    return [bundles.Checkpoints(root, variables).save(written.step)]


def describe(directory: epath.Path, described: Weights) -> None:
    """Writes the files that `read` needs beside a checkpoint."""
    directory = epath.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    if vocabulary := described.vocabulary:
        vocabulary.write(directory / VOCABULARY_FILES[vocabulary.kind])
    values = dataclasses.asdict(described.architecture.encoder)
    if generator := described.architecture.generator:
        heads = generator.num_attention_heads
        values["generator_num_attention_heads"] = heads
    for name in _TEXT_FIELDS:
        values[name] = getattr(described, name)
    files.write_json(directory / _ARCHITECTURE_FILE, values)


def format_of(path: str) -> str:
    """Returns "hf" if the files at a path are Hugging Face's, else "tf1"."""
    first = epath.Path(bundles.split_paths(path)[0])
    for part in (first, *(first / network for network in NETWORKS)):
        config = part / CONFIG_FILE
        if config.exists() and "model_type" in files.read_json(config):
            return "hf"
    return "tf1"


def sizes(loaded: Weights) -> dict[str, int]:
    """Returns the number of weights of each network, embeddings included."""
    networks = {x: select(loaded, x) for x in loaded.networks}
    return {
        network: sum(map(math.prod, part.architecture.shapes().values()))
        for network, part in networks.items()
    }


def load(
    path: str,
    network: str = "",
    expected: type[EncoderWithHead] = EncoderWithHead,
    *,
    vocab_file: str = "",
    **options: object,
) -> EncoderWithHead:
    loaded = read(path, vocab_file=vocab_file)
    network = network or expected.NETWORK or loaded.networks[0]
    loaded = select(loaded, network)
    model = make(loaded, **options)
    if not isinstance(model, expected):
        raise UserError(f"The {network} of {path} is no {expected.__name__}.")
    warn_of_assumed_heads(loaded)
    return model


def read_with_vocabulary(path: str, vocab_file: str = "") -> Weights:
    loaded = read(path, vocab_file=vocab_file)
    loaded.known_vocabulary()
    warn_of_assumed_heads(loaded)
    return loaded


def warn_of_assumed_heads(loaded: Weights) -> None:
    if loaded.heads_are_assumed:
        heads = loaded.architecture.encoder.num_attention_heads
        advise(
            f"{loaded.origin} is taken to have {heads} attention heads; else "
            "set --num_attention_heads of convert_checkpoint."
        )


def row_length(given: int, trained: int, longest: int) -> int:
    """Returns the row length in tokens: as given, as in training, or 512."""
    length = given or min(trained or 512, longest)
    text_reader.require_row_length(length, longest)
    return length


def tokenizer_options(loaded: Weights) -> dict[str, bool]:
    """Returns the tokenizer's options; an unknown one is True."""
    return {
        "do_lower_case": loaded.do_lower_case is not False,
        "strip_accents": loaded.strip_accents is not False,
    }


def make(
    loaded: Weights, dtype: Policy = None, **options: object
) -> EncoderWithHead:
    heads = loaded.architecture.heads
    classes = [cls for name, cls in _CLASSES.items() if name in heads]
    network = [*classes, EncoderWithHead][0](
        loaded.architecture.encoder,
        loaded.vocabulary,
        dtype=dtype,
        **tokenizer_options(loaded) | options,
    )
    weights.assign(network, loaded.arrays)
    return network


class Calibration(NamedTuple):
    """The temperature of P(replaced) = sigmoid(logit / temperature)."""

    temperature: float
    fitted_on: str
    step: int


def read_calibration(path: str, step: int) -> Calibration | None:
    """Reads the calibration beside a checkpoint, None if there is none."""
    file = directory_of(path) / CALIBRATION_FILE
    if not file.exists():
        return None
    calibration = Calibration(**files.read_json(file))
    if calibration.step == step:
        return calibration
    advise(
        f"The temperature beside {path} was fitted at step "
        f"{calibration.step:,}, not at {step:,}, and is not applied."
    )
    return None


def directory_of(path: str) -> epath.Path:
    """Returns the directory of a checkpoint; a directory is returned itself."""
    first = epath.Path(bundles.split_paths(path)[0])
    return first if first.is_dir() else first.parent


def weights_of(network: EncoderWithHead) -> Weights:
    """Returns copies of the weights of a single network."""
    reader = network.reader
    heads = tuple(x for x, cls in _CLASSES.items() if cls is type(network))
    return Weights(
        origin=network.name,
        arrays={v.path: v.numpy() for v in network.weights},
        architecture=architecture.Architecture(
            encoder=network.config, heads=heads
        ),
        vocabulary=network.vocabulary,
        do_lower_case=reader and reader.do_lower_case,
        strip_accents=reader and reader.strip_accents,
    )
