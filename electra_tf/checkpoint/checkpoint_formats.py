"""Reading and writing checkpoints in three formats.

tf1: the original's, a tensor bundle with its names, and optionally vocab.txt.
`write` adds an `architecture.json`, which the original ignores, of the settings
that shapes do not determine: attention heads, letter case, accents, length of
rows, labels and the range of values.

electra_tf: the same, or, in a run, with its `config.json`. The directory of a
fine-tuning trial may be given for that of its model.

hf: Hugging Face's, a directory of one network, with config.json and
model.safetensors; or one with such directories, named as in `NETWORKS`.

Only arrays, JSON and text are ever read, never code.
"""

import contextlib
import dataclasses
import functools
import math
import operator
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from electra_tf.checkpoint import (
    architecture,
    bundles,
    output_directory,
    vocabulary_search,
    weights,
)
from electra_tf.checkpoint.hugging_face import directory as hugging_face
from electra_tf.checkpoint.weights import NETWORKS, Weights
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, storage, trial_directories
from electra_tf.util.config_files import CONFIG_FILE
from electra_tf.util.errors import UserError

_ARCHITECTURE_FILE = "architecture.json"
_KERAS_EXTENSIONS = (".keras", ".h5")


def read(
    path: str,
    source_format: str = "auto",
    *,
    vocab_file: str = "",
    num_attention_heads: int | None = None,
    generator_num_attention_heads: int | None = None,
) -> Weights:
    """Reads a checkpoint, with the vocabulary and settings beside it."""
    if pathlib.Path(path).suffix in _KERAS_EXTENSIONS:
        raise UserError(
            "A checkpoint must be a bundle of TensorFlow's or a directory of "
            f"Hugging Face's. Received: {path}, a file of Keras'. Load it "
            "with keras.saving.load_model, after import electra_tf."
        )
    path = trial_directories.find_model(path)
    if source_format == "auto":
        source_format = format_of(path)
    vocabulary = Vocabulary.from_file(vocab_file) if vocab_file else None
    heads = {
        "num_attention_heads": num_attention_heads,
        "generator_num_attention_heads": generator_num_attention_heads,
    }
    if source_format == "hf":
        read_weights = _read_hugging_face(path)
        if vocabulary is not None:
            read_weights = dataclasses.replace(
                read_weights, vocabulary=vocabulary
            )
    else:
        read_weights = _read_bundle(path, heads, vocabulary)
    _check_heads(read_weights, heads)
    weights.check_vocabulary(read_weights)
    weights.check_finite(read_weights)
    return read_weights


def write(
    directory: str,
    written: Weights,
    target_format: str,
    *,
    networks: Sequence[str] = NETWORKS,
    kind: str = "",
) -> list[storage.Path]:
    """Writes weights in one of the formats; if that fails, no file stays."""
    with open_output(directory, target_format) as root:
        return write_to(
            root, written, target_format, networks=networks, kind=kind
        )


def open_output(
    directory: storage.StrPath, target_format: str
) -> contextlib.AbstractContextManager[storage.Path]:
    """Opens a directory for one of the formats, see `output_directory`."""
    if target_format == "hf":
        _check_is_local(directory)
    return output_directory.opened(directory)


def write_to(
    root: storage.Path,
    written: Weights,
    target_format: str,
    *,
    networks: Sequence[str] = NETWORKS,
    kind: str = "",
) -> list[storage.Path]:
    """Writes as `write`, into the directory that `open_output` opened."""
    known = (*written.networks, weights.ENCODER)
    found = [name for name in networks if name in known]
    if not found:
        weights.select(written, networks[0])  # raises an informative error
    if target_format == "hf":
        return _write_hugging_face(root, written, found, kind)
    if len(networks) == 1:
        written = weights.select(written, networks[0])
    if target_format == "tf1":
        _check_sharing(written)
    describe(root, written)
    variables = {name: tf.Variable(x) for name, x in written.arrays.items()}
    return [bundles.Checkpoints(root, variables).save(written.step)]


def _check_sharing(written: Weights) -> None:
    """Refuses a kind of sharing that the original does not have."""
    sharing = written.architecture.generator_sharing
    if sharing not in ("embeddings", "all", "none"):
        raise UserError(
            "The original's networks share all their embeddings, all weights "
            f"or nothing. Received: {written.origin}, with "
            f"generator_sharing={sharing}. Convert them one by one, with "
            "--network=discriminator and --network=generator."
        )


def describe(directory: storage.Path, described: Weights) -> None:
    """Writes the files that `read` needs beside a checkpoint."""
    vocabulary = described.vocabulary
    if vocabulary is not None:
        path = directory / vocabulary.file_name
        files.atomic_write_bytes(path, vocabulary.content)
    files.write_json(directory / _ARCHITECTURE_FILE, _description(described))


def format_of(path: str) -> str:
    """Returns "hf" if the files at a path are Hugging Face's, else "tf1"."""
    first = storage.as_path(bundles.split_paths(path)[0])
    for part in (first, *(first / network for network in NETWORKS)):
        config = part / CONFIG_FILE
        values = files.read_json(config) if storage.exists(config) else None
        if isinstance(values, Mapping) and "model_type" in values:
            return "hf"
    return "tf1"


def find(path: str) -> str:
    """Finds the checkpoint that a path stands for."""
    path = trial_directories.find_model(path)
    return path if format_of(path) == "hf" else str(bundles.find(path))


def _check_is_local(path: storage.StrPath) -> None:
    """Refuses a remote store: other libraries read and write these files."""
    if storage.is_remote(path):
        raise UserError(
            "A directory of Hugging Face's must be on this machine. "
            f"Received: {path}. Copy it, or use the format electra_tf."
        )


def _read_hugging_face(path: str) -> Weights:
    _check_is_local(path)
    paths = [pathlib.Path(part) for part in bundles.split_paths(path)]
    if len(paths) == 1 and not (paths[0] / CONFIG_FILE).exists():
        parts = [paths[0] / network for network in NETWORKS]
        paths = [
            part for part in parts if (part / CONFIG_FILE).exists()
        ] or paths
    elif len(paths) > 2:
        raise UserError(
            "At most two directories can be given, a discriminator's and a "
            f"generator's. Received: {path}"
        )
    if len(paths) == 1:
        return hugging_face.read(paths[0])
    *mains, generator = map(_read_part, paths)
    return weights.merge(
        functools.reduce(weights.merge_heads, mains), generator
    )


def _read_part(path: pathlib.Path) -> Weights:
    """Reads one of several networks."""
    network = hugging_face.read(path)
    is_corrector = path.name == "corrector"  # else a masked language model
    return weights.as_corrector(network) if is_corrector else network


def _read_bundle(
    path: str, heads: Mapping[str, int | None], vocabulary: Vocabulary | None
) -> Weights:
    """Reads a bundle; what is given fills in what is not stored beside it."""
    prefix = bundles.find(path)
    arrays = {
        name: array
        for name, array in bundles.read(prefix).items()
        if not name.startswith(architecture.LOSS_SCALE)
    }
    stored = _metadata(prefix.parent)
    shapes = {name: array.shape for name, array in arrays.items()}
    # A run stores null for the default number, which is that of `infer`.
    heads = {name: stored.get(name, given) for name, given in heads.items()}
    inferred = {"max_position_embeddings", "type_vocab_size"}  # from shapes
    common = architecture.COMMON_FIELDS - inferred
    values = {name: stored[name] for name in common & stored.keys()}
    try:
        found = architecture.infer(shapes, **heads).with_fields(**values)
    except UserError as error:
        raise UserError(f"{prefix}: {error}") from error
    if vocabulary is None:
        vocabulary = vocabulary_search.find(prefix.parent, stored)
    is_known = "num_attention_heads" in stored
    return Weights(
        origin=str(prefix),
        arrays=arrays,
        architecture=found,
        vocabulary=vocabulary,
        do_lower_case=stored.get("do_lower_case"),
        strip_accents=stored.get("strip_accents"),
        max_seq_length=stored.get("max_seq_length", 0),
        labels=tuple(stored.get("labels", ())),
        value_range=tuple(stored.get("value_range") or ()),
        task_kind=stored.get("task_kind") or "",
        objective=stored.get("objective", ""),
        heads_are_assumed=not is_known and heads["num_attention_heads"] is None,
    )


def _check_heads(found: Weights, given: Mapping[str, int | None]) -> None:
    """Refuses numbers of heads that differ from the stored ones."""
    encoders = {
        "num_attention_heads": found.architecture.encoder,
        "generator_num_attention_heads": found.architecture.generator,
    }
    for name, encoder in encoders.items():
        stored = encoder and encoder.num_attention_heads
        if None not in (given[name], stored) and given[name] != stored:
            raise UserError(
                f"`{name}` must be {stored}, the number stored with "
                f"{found.origin}. Received: {name}={given[name]}."
            )


def _metadata(directory: storage.Path) -> dict[str, Any]:
    """Returns the settings beside a bundle that its shapes do not determine."""
    path = directory / _ARCHITECTURE_FILE
    if storage.exists(path):
        stored = files.read_object(path)
        with files.naming_malformed_file(path):
            "".join(stored.get("labels", ()))  # texts
            operator.index(stored.get("max_seq_length", 0))  # an integer
            _check_range(stored.get("value_range"))
        task_file = directory / trial_directories.DESCRIPTION
        if storage.exists(task_file):
            stored |= _task(task_file)
        return stored
    if storage.exists(directory / CONFIG_FILE):
        parts = files.read_json(directory / CONFIG_FILE)
        if not isinstance(parts, Mapping):  # somebody else's config.json
            return {}
        with files.naming_malformed_file(directory / CONFIG_FILE):
            stored = {**parts.get("corpus", {}), **parts.get("model", {})}
            objective = parts.get("objective", {}).get("objective", "")
            stored["objective"] = objective
            operator.index(stored.get("max_seq_length", 0))  # an integer
        return stored
    return {}


def _task(path: storage.Path) -> dict[str, Any]:
    """Returns kind and range, if there are any, of a trial's only task."""
    with files.naming_malformed_file(path):
        tasks = [*files.read_object(path)["tasks"].values()]
        task = tasks[0] if len(tasks) == 1 else {}
        _check_range(task.get("value_range"))
    names = {"task_kind": "kind", "value_range": "value_range"}
    return {name: task.get(key) for name, key in names.items()}


def _check_range(values: Sequence[float] | None) -> None:
    low, high = values or (0, 1)
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"value_range={values}")


def _description(described: Weights) -> dict[str, Any]:
    """Returns the settings for `_metadata`, and sizes for human readers."""
    found = described.architecture
    generator = {}
    if found.generator is not None:
        heads = found.generator.num_attention_heads
        generator = {"generator_num_attention_heads": heads}
    return {
        **found.encoder.to_dict(),
        **generator,
        "do_lower_case": described.do_lower_case,
        "strip_accents": described.strip_accents,
        "max_seq_length": described.max_seq_length,
        "labels": list(described.labels),
        "value_range": list(described.value_range),
    }


def _write_hugging_face(
    root: storage.Path, written: Weights, networks: list[str], kind: str
) -> list[storage.Path]:
    paths = []
    for network in networks:
        path = root / network if len(networks) > 1 else root
        part = weights.without_slots(weights.select(written, network))
        hugging_face.write(path, part, kind=kind)
        paths.append(path)
    return paths


def sizes(described: Weights) -> dict[str, int]:
    """Returns the number of weights of each network, embeddings included."""
    return {
        network: weights.select(described, network).architecture.num_parameters
        for network in described.networks
    }
