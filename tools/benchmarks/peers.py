"""What peers share: sizes, how they answer; of `peer_step.py` their setting."""

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

FIRST_WORD = 5
"""The tokens before it are special."""
MASK = 4

_SIZES = {
    "small": (128, 256, 4),
    "base": (768, 768, 12),
    "demo": (128, 128, 4),
}
SIZES = tuple(_SIZES)
"""Of encoders, by their names."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """What a worker trains.

    Attributes:
      precision: "float32" or "bfloat16".
      sizes: of the encoder, fields of `BertConfig`.
      batch_size: rows in an update.
      length: tokens in a row.
      threads: that compute.
      variant: of torch: "fused" or "foreach" by its optimizer, or "compiled",
        the first under torch.compile.
      packed_share: share of the rows that hold several documents; above 0 of
        ours alone.
    """

    precision: str
    sizes: dict[str, int]
    batch_size: int
    length: int
    threads: int
    variant: str
    packed_share: float = 0.0


@dataclasses.dataclass(frozen=True)
class Peer:
    """A training.

    Attributes:
      versions: of the libraries.
      update: makes so many updates, and returns the last loss.
      figures: measures what else the peer knows of an update; name -> figure.
        It may spoil the weights.
    """

    versions: dict[str, str]
    update: Callable[[int], float]
    figures: Callable[[], dict[str, float]] = dict


def encoder_sizes(
    size: str, *, num_hidden_layers: int, vocab_size: int
) -> dict[str, int]:
    """Returns the sizes of an encoder, named as Hugging Face's and ours.

    Args:
      size: of `SIZES`.
      num_hidden_layers: layers.
      vocab_size: tokens.
    """
    embedding_size, hidden_size, heads = _SIZES[size]
    return {
        "vocab_size": vocab_size,
        "embedding_size": embedding_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden_size,
    }


def answer_requests(
    versions: Mapping[str, str], answer: Callable[[Any], Mapping[str, Any]]
) -> None:
    """Says what a worker is, then answers its standard input until it ends.

    Args:
      versions: of its libraries.
      answer: a request, a line of JSON -> the answer, one, too.
    """
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
    """Makes a training in a plain loop of PyTorch: clip, then Adam.

    Args:
      setting: of the worker.
      modules: to train.
      loss_of: computes the loss of a batch, under the setting's precision.
      learning_rate: constant.
      weight_decay: decoupled.
    """
    import torch
    import transformers

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

    versions = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    return Peer(versions, update)
