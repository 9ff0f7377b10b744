"""What the peers of `peer_step.py` share: their setting, and what they are."""

import dataclasses
from collections.abc import Callable
from typing import Any

FIRST_WORD = 5
"""The tokens before it are special."""
MASK = 4


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
