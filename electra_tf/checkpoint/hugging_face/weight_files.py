"""The weight files of a Hugging Face directory.

Weights are read only from safetensors files: a table of names and shapes, then
raw numbers. Files of other formats can hold code that runs when they are
opened, or need libraries of their own.
"""

import pathlib
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import ml_dtypes  # noqa: F401  numpy then knows bfloat16
import numpy as np

from electra_tf.util import files, optional_packages
from electra_tf.util.errors import UserError, shorten_repr

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

_OTHER_FORMATS = (
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
    "flax_model.msgpack",
    "model.ckpt.index",
)
_SHARD = re.compile(r"[^/\0]+\.safetensors")  # the name of a file
_FLOATS = {"F32", "F16", "BF16"}
# Buffers that transformers computes itself; some of its versions saved them.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")


def safetensors() -> ModuleType:
    """Returns the module `safetensors`, an optional package."""
    optional_packages.load("safetensors.numpy", "hf")
    return optional_packages.load("safetensors", "hf")


def weights_file(directory: pathlib.Path) -> pathlib.Path:
    """Returns the file that holds the weights."""
    for name in WEIGHTS_FILE, INDEX_FILE:
        if (directory / name).exists():
            return directory / name
    others = [name for name in _OTHER_FORMATS if (directory / name).exists()]
    if not others:
        raise UserError(
            f"{directory} must hold {WEIGHTS_FILE}. Received: no weights."
        )
    raise UserError(
        f"{directory} must hold {WEIGHTS_FILE}. Received: {', '.join(others)}. "
        "Such a file is a serialized Python object, which can run code when it "
        "is opened, or of a format that needs another library; it is never "
        "opened here. In a place you trust, load it with the class of "
        "transformers that config.json names under `architectures`, and call "
        "its save_pretrained() with a new directory."
    )


def read_tensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads all tensors of a file, or of the shards that an index names."""
    if path.name != INDEX_FILE:
        return dict(_tensors(path))
    shards = _shards(path)
    tensors: dict[str, np.ndarray] = {}
    for shard in sorted({*shards.values()}):
        for name, array in _tensors(path.with_name(shard)):
            if shards.get(name) != shard:
                raise UserError(
                    f"{path} must say which shard holds which tensor. "
                    f"Received: {name} in {shard}, in the index "
                    f"{shards.get(name, 'nowhere')}."
                )
            tensors[name] = array
    if missing := sorted(shards.keys() - tensors.keys()):
        raise UserError(
            f"{path} must name tensors that its shards hold. Received: "
            f"{missing[0]}, not in {shards[missing[0]]}."
        )
    return tensors


def write(
    directory: pathlib.Path,
    contents: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
) -> None:
    """Writes all files, the weights last."""
    module = safetensors()  # before anything is written
    files.ensure_writable(directory)
    for name, content in contents.items():
        if isinstance(content, str):
            files.atomic_write_text(directory / name, content)
        else:
            files.write_json(directory / name, content)
    # Version 0.8 ignores strides: it would write a transposed array in memory
    # order.
    contiguous = {n: np.ascontiguousarray(x) for n, x in tensors.items()}
    files.atomic_write_bytes(
        directory / WEIGHTS_FILE,
        module.numpy.save(contiguous, {"format": "pt"}),
    )


def _tensors(path: pathlib.Path) -> Iterator[tuple[str, np.ndarray]]:
    module = safetensors()
    try:
        with module.safe_open(path, framework="np") as file:
            for name in file.keys():
                if name.endswith(_BUFFERS):
                    continue
                dtype = file.get_slice(name).get_dtype()
                if dtype not in _FLOATS:
                    raise UserError(
                        f"{path} must hold tensors of {', '.join(_FLOATS)}. "
                        f"Received: {name} of {dtype}."
                    )
                yield name, np.asarray(file.get_tensor(name), np.float32)
    except (OSError, module.SafetensorError) as error:
        raise UserError(
            f"{path} must be a whole file of safetensors. Received: {error}. "
            "Copy or download it again."
        ) from error


def _shards(path: pathlib.Path) -> dict[str, str]:
    """Reads the map of tensor names to shards."""
    index = files.read_json(path)
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict) or not all(
        isinstance(shard, str) and _SHARD.fullmatch(shard)
        for shard in shards.values()
    ):
        raise UserError(
            f"{path} must map the name of each tensor to a file beside it, in "
            f"`weight_map`. Received: {shorten_repr(shards)}."
        )
    return {n: s for n, s in shards.items() if not n.endswith(_BUFFERS)}
