r"""Measures a finished run by position, on its held-out rows.

    python tools/replication/position_losses.py --data_dir=DIR \
        --model_name=NAME --border=64

A training that begins with short rows leaves the positions after them untrained
until the long rows come, unless it has --shift_positions
(docs/replication.md#short-rows-first). Prints one JSON line: for positions
below the border and from the border on, the masked_lm_loss over masked slots
and, if there is a discriminator, the share of replaced tokens and the
discriminator's AUC on them. Positions restart in each document of a packed row.
"""

import dataclasses
import json
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from electra_tf.configure_pretraining import RunConfig
from electra_tf.data import preparation
from electra_tf.model import packed_rows
from electra_tf.pretrain import evaluation, pretrain_data, pretraining_run
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.util import config_flags
from electra_tf.util.config_fields import Checked, bounded, required
from electra_tf.util.errors import UserError

_BATCH_SIZE = 32

Measured = dict[str, np.ndarray]
"""One number for each masked slot or real token, by name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PositionLossesConfig(Checked):
    """Which run to measure."""

    data_dir: str = required("name the run's data directory")
    """Root of vocabulary, records and models of the run. Required."""

    model_name: str = required("name the run")
    """Name of the run, which trained a generator or a masked language model.
    Required."""

    border: int = bounded("at least 1", 64)
    """First position of the second part, from 0."""

    max_batches: int = bounded("at least 1", 20)
    """Greatest number of batches of 32 rows."""


def main(config: PositionLossesConfig) -> None:
    """Measures both parts, and prints them.

    Raises:
      UserError: if the run's rows end before the border, or if it has no
        held-out records.
    """
    run = RunConfig(data_dir=config.data_dir, model_name=config.model_name)
    model = pretraining_run.load(run)
    border, end = config.border, model.config.corpus.max_seq_length
    held_out = preparation.prepare(model.config, log=str).held_out
    if border >= end or held_out is None:
        raise UserError(
            "The run must have held-out rows of more than `border` tokens. "
            f"Received: border={border}, rows of {end} tokens, "
            f"{'no ' if held_out is None else ''}held-out records. Set a "
            "lower --border, or name a run with held-out records."
        )
    dataset = pretrain_data.evaluation_dataset(held_out, batch_size=_BATCH_SIZE)
    slots, tokens = [], []
    measure = _make_step(model)
    for i, inputs in enumerate(dataset.take(config.max_batches)):
        rows = tf.range(i * _BATCH_SIZE, i * _BATCH_SIZE + len(inputs[0]))
        found = measure(Inputs(*inputs), evaluation.evaluation_keys(rows))
        slots.append(_selected(found[0]))
        tokens.append(_selected(found[1]))
    report = {
        f"{a} to {b - 1}": _summary(_joined(slots), _joined(tokens), a, b)
        for a, b in ((0, border), (border, end))
    }
    print(json.dumps(report))


def _make_step(model: PretrainingModel) -> Callable:
    """Makes a function of a batch and its keys that measures each token.

    It returns two dicts of tensors of one shape, [B, N] and [B, L], of masked
    slots and of tokens; "counts" is 0 where the slot or the token is padding.
    The second has nothing but "counts" and "position" without a discriminator.
    """

    @tf.function(autograph=False)
    def step(inputs: Inputs, keys: tf.Tensor) -> tuple[dict, dict]:
        made = model.forward(inputs, keys=keys, training=False)
        positions = packed_rows.positions(inputs.input_mask)
        masked = made.masked
        slots = {
            "counts": masked.weights,
            "position": tf.gather(positions, masked.positions, batch_dims=1),
            "loss": tf.nn.sparse_softmax_cross_entropy_with_logits(
                masked.ids, made.mlm_logits
            ),
        }
        tokens = {"counts": inputs.is_real, "position": positions}
        if made.disc_logits is not None:
            tokens["logit"] = made.disc_logits
            tokens["is_fake"] = made.fake.is_fake_tokens
        return slots, tokens

    return step


def _selected(found: dict[str, tf.Tensor]) -> Measured:
    """Returns what counts of a batch, each [number of slots or tokens]."""
    counts = found["counts"].numpy() > 0
    return {name: x.numpy()[counts] for name, x in found.items()}


def _joined(batches: list[Measured]) -> Measured:
    return {k: np.concatenate([x[k] for x in batches]) for k in batches[0]}


def _summary(
    slots: Measured, tokens: Measured, first: int, end: int
) -> dict[str, float]:
    """Returns the metrics at positions from `first` to before `end`."""
    losses = _between(slots, first, end)["loss"]
    if not losses.size:
        return {"num_slots": 0}
    found = {
        "num_slots": len(losses),
        "masked_lm_loss": float(losses.mean(dtype=np.float64)),
    }
    if "logit" in tokens:
        tokens = _between(tokens, first, end)
        found["replaced_share"] = float(tokens["is_fake"].mean())
        found["disc_auc"] = evaluation.area_under_curve(
            tokens["logit"], tokens["is_fake"]
        )
    return found


def _between(found: Measured, first: int, end: int) -> Measured:
    chosen = (found["position"] >= first) & (found["position"] < end)
    return {name: x[chosen] for name, x in found.items()}


if __name__ == "__main__":
    config_flags.run(main, PositionLossesConfig)
