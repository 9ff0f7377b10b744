"""Common code of peers: sizes, requests, and training for `peer_step.py`."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

FIRST_WORD = 5
"""Id of the first token that is not special."""
MASK = 4

_SIZES = {
    "small": (128, 256, 4),
    "base": (768, 768, 12),
    "demo": (128, 128, 4),
}
SIZES = tuple(_SIZES)
"""Names of encoder sizes."""

Versions = Mapping[str, str | None]
"""Package -> its version, see `machine.versions`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """What a worker trains."""

    precision: str
    sizes: dict[str, int]
    batch_size: int
    length: int
    threads: int
    variant: str
    packed_share: float = 0.0


@dataclasses.dataclass(frozen=True)
class Peer:
    """A training."""

    versions: Versions
    update: Callable[[int], float]
    figures: Callable[[], dict[str, float]] = dict


def encoder_sizes(
    size: str, *, num_hidden_layers: int, vocab_size: int
) -> dict[str, int]:
    """Returns an encoder's sizes, by names common to Hugging Face and us."""
    embedding_size, hidden_size, heads = _SIZES[size]
    return {
        "vocab_size": vocab_size,
        "embedding_size": embedding_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden_size,
    }


def random_rows(
    rng: "np.random.Generator", vocab_size: int, shape: tuple[int, int]
) -> tuple["np.ndarray", "np.ndarray"]:
    """Makes rows of random tokens, between half and completely filled.

    Shapes: returns [B, L].
    """
    import numpy as np

    size, length = shape
    sizes = rng.integers(length // 2, length + 1, size)
    sizes[0] = length
    mask = (np.arange(length) < sizes[:, None]).astype(np.int32)
    ids = rng.integers(FIRST_WORD, vocab_size, shape)
    return ids.astype(np.int32) * mask, mask


def tensorflow(num_threads: int) -> Any:  # noqa: ANN401 (a module)
    """Imports TensorFlow, and sets its number of compute threads."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    tf.config.threading.set_inter_op_parallelism_threads(num_threads)
    return tf


def thread_variables(num_threads: int) -> dict[str, str]:
    """Returns environment variables that do the same in another process."""
    kinds = ("INTRA", "INTER")
    return {f"TF_NUM_{kind}OP_THREADS": str(num_threads) for kind in kinds}


def worker_arguments(
    about: str, setting_class: type, **choices: Iterable[str]
) -> list[Any]:
    """Parses the command line of a worker."""
    parser = argparse.ArgumentParser(description=about)
    for name, allowed in choices.items():
        parser.add_argument(name, choices=allowed)
    parser.add_argument("setting", type=json.loads)
    *words, setting = vars(parser.parse_args()).values()
    return [*words, setting_class(**setting)]


def answer_requests(
    versions: Versions, answer: Callable[[Any], Mapping[str, Any]]
) -> None:
    """Prints a worker's versions, then answers requests until input ends."""
    _say(versions)
    for line in sys.stdin:
        _say(answer(json.loads(line)))


def _say(what: Mapping[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def torch_peer(
    setting: Setting,
    modules: list[Any],
    loss_of: Callable[[], Any],
    *,
    learning_rate: float,
    weight_decay: float,
) -> Peer:
    """Makes a peer that trains in a plain PyTorch loop: clip, then AdamW."""
    import machine
    import torch

    weights = {id(w): w for module in modules for w in module.parameters()}
    weights = list(weights.values())
    kind = "foreach" if setting.variant == "foreach" else "fused"
    optimizer = torch.optim.AdamW(
        weights, lr=learning_rate, weight_decay=weight_decay, **{kind: True}
    )
    is_half = setting.precision == "bfloat16"
    if setting.variant == "compiled":
        loss_of = torch.compile(loss_of)

    def update(count: int) -> float:
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
                loss = loss_of()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
        return loss.item()

    return Peer(machine.versions("torch", "transformers"), update)
