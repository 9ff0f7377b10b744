r"""Measures a finished run by groups of tokens, on its held-out rows.

    python tools/replication/token_losses.py --data_dir=DIR \
        --model_name=NAME --by=position --border=64

compares positions below the border with those from it on: a training that
begins with short rows leaves the positions after them untrained until the long
rows come, unless it has --shift_positions
(docs/replication/hours.md#short-rows-first). Positions restart in each document
of a packed row.

    python tools/replication/token_losses.py --data_dir=DIR \
        --model_name=NAME --by=copies

compares tokens that occur once in the network's input of their document with
those that occur again, leaving out the most frequent ones, which nearly always
do (docs/replication/hours.md#what-qnli-asks-for). A masked token occurs again
if it stands in another place unmasked.

Prints one JSON line: for both groups the masked_lm_loss over masked slots and,
if there is a discriminator, the share of replaced tokens and the
discriminator's AUC on them.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.configure_pretraining import RunConfig
from electra_tf.data import preparation
from electra_tf.model import packed_rows
from electra_tf.pretrain import evaluation, pretrain_data
from electra_tf.pretrain import run as pretraining_run
from electra_tf.pretrain.metrics import ForwardPass
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.util import config_flags
from electra_tf.util.config_fields import Checked, bounded, one_of, required
from electra_tf.util.errors import UserError

_BATCH_SIZE = 32

Measured = dict[str, np.ndarray]
"""One number for each masked slot or real token, by name."""

Groups = tuple[tf.Tensor, tf.Tensor]
"""Group of each masked slot, int32 [B, N], and of each token, int32 [B, L]: 0,
1, or -1 for those left out."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenLossesConfig(Checked):
    """Which run to measure, and by which groups."""

    data_dir: str = required("name the run's data directory")
    """Root of vocabulary, records and models of the run. Required."""

    model_name: str = required("name the run")
    """Name of the run, which trained a generator or a masked language model.
    Required."""

    by: str = one_of("position", "copies")
    """What distinguishes the two groups."""

    border: int = bounded("at least 1", 64)
    """position: first position of the second group, from 0."""

    num_frequent: int = bounded("at least 0", 300)
    """copies: number of the most frequent tokens of these rows, which are left
    out."""

    max_batches: int = bounded("at least 1", 20)
    """Greatest number of batches of 32 rows."""


def main(config: TokenLossesConfig) -> None:
    """Measures both groups, and prints them."""
    run = RunConfig(data_dir=config.data_dir, model_name=config.model_name)
    model = pretraining_run.load(run)
    border, end = config.border, model.config.corpus.max_seq_length
    held_out = preparation.prepare(model.config, log=str).held_out
    by_position = config.by == "position"
    if held_out is None:
        raise UserError(
            f"{model.config.run.model_dir} must be a run with held-out "
            "records. Received: none. Name another run."
        )
    if by_position and border >= end:
        raise UserError(
            f"`border` must be below {end}, the tokens in a row. Received: "
            f"border={border}. Set a lower --border."
        )
    dataset = pretrain_data.evaluation_dataset(held_out, batch_size=_BATCH_SIZE)
    batches = [Inputs(*x) for x in dataset.take(config.max_batches)]
    if by_position:
        names = f"0 to {border - 1}", f"{border} to {end - 1}"
        group = _by_position(border)
    else:
        names = "once", "again"
        group = _by_copies(_frequent(batches, config.num_frequent))
    slots, tokens = _measure(model, batches, group)
    report = {x: _summary(slots, tokens, i) for i, x in enumerate(names)}
    print(json.dumps(report))


def _by_position(border: int) -> Callable[[ForwardPass], Groups]:
    """Makes a function that groups positions below and from a border on."""

    def group(made: ForwardPass) -> Groups:
        positions = packed_rows.positions(made.inputs.input_mask)
        groups = tf.cast(positions >= border, tf.int32)
        return tf.gather(groups, made.masked.positions, batch_dims=1), groups

    return group


def _by_copies(frequent: np.ndarray) -> Callable[[ForwardPass], Groups]:
    """Makes a function that groups by whether a token occurs again."""

    def group(made: ForwardPass) -> Groups:
        is_elsewhere = packed_rows.share_document(made.inputs.input_mask)
        length = tf.shape(is_elsewhere)[-1]
        is_elsewhere &= ~tf.eye(length, dtype=tf.bool)  # [B, L, L]
        seen = made.inputs if made.fake is None else made.fake.inputs
        masked = made.masked
        return (
            _occur(
                masked.ids,
                masked.inputs.input_ids,
                tf.gather(is_elsewhere, masked.positions, batch_dims=1),
                frequent,
            ),
            _occur(seen.input_ids, seen.input_ids, is_elsewhere, frequent),
        )

    return group


def _occur(
    ids: tf.Tensor,
    row: tf.Tensor,
    is_elsewhere: tf.Tensor,
    frequent: np.ndarray,
) -> tf.Tensor:
    """Returns whether each token occurs elsewhere in its document.

    Shapes: ids [B, K], row [B, L], is_elsewhere [B, K, L]; returns [B, K].
    """
    is_equal = ids[:, :, tf.newaxis] == row[:, tf.newaxis]
    is_copied = tf.reduce_any(is_equal & is_elsewhere, -1)
    is_left_out = tf.reduce_any(ids[:, :, tf.newaxis] == frequent, -1)
    return tf.where(is_left_out, -1, tf.cast(is_copied, tf.int32))


def _frequent(batches: list[Inputs], num_tokens: int) -> np.ndarray:
    """Returns the ids of the most frequent tokens, int32 [num_tokens]."""
    ids = np.concatenate([x.input_ids.numpy()[x.is_real] for x in batches])
    values, counts = np.unique(ids, return_counts=True)
    return values[np.argsort(-counts, kind="stable")[:num_tokens]]


def _measure(
    model: PretrainingModel,
    batches: list[Inputs],
    group: Callable[[ForwardPass], Groups],
) -> tuple[Measured, Measured]:
    """Measures the masked slots and the tokens of the batches."""

    @tf.function(autograph=False)
    def measure(inputs: Inputs, keys: tf.Tensor) -> tuple[dict, dict]:
        made = model.forward(inputs, keys=keys, training=False)
        return _of_slots_and_tokens(made, group)

    found = []
    for i, inputs in enumerate(batches):
        rows = tf.range(i * _BATCH_SIZE, i * _BATCH_SIZE + len(inputs[0]))
        found.append(measure(inputs, evaluation.evaluation_keys(rows)))
    slots, tokens = zip(*found, strict=True)
    return _joined(slots), _joined(tokens)


def _of_slots_and_tokens(
    made: ForwardPass, group: Callable[[ForwardPass], Groups]
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Measures the masked slots, [B, N], and the tokens, [B, L], of a batch."""
    of_slots, of_tokens = group(made)
    slots = {
        "group": tf.where(made.masked.weights > 0, of_slots, -1),
        "loss": tf.nn.sparse_softmax_cross_entropy_with_logits(
            made.masked.ids, made.mlm_logits
        ),
    }
    tokens = {"group": tf.where(made.inputs.is_real, of_tokens, -1)}
    if made.disc_logits is not None:
        tokens["logit"] = made.disc_logits
        tokens["is_fake"] = made.fake.is_fake_tokens
    return slots, tokens


def _joined(batches: Sequence[dict[str, tf.Tensor]]) -> Measured:
    """Joins the slots or the tokens of batches, each [number of them]."""
    return {
        name: np.concatenate([np.ravel(x[name]) for x in batches])
        for name in batches[0]
    }


def _summary(slots: Measured, tokens: Measured, group: int) -> dict[str, float]:
    """Returns the metrics of a group; none of slots or tokens that it lacks."""
    losses = slots["loss"][slots["group"] == group]
    found: dict[str, float] = {"num_slots": len(losses)}
    if losses.size:
        found["masked_lm_loss"] = float(losses.mean(dtype=np.float64))
    if "logit" in tokens:
        is_chosen = tokens["group"] == group
        is_fake = tokens["is_fake"][is_chosen]
        found["num_tokens"] = len(is_fake)
        if is_fake.size:
            found["replaced_share"] = float(is_fake.mean())
            found["disc_auc"] = evaluation.area_under_curve(
                tokens["logit"][is_chosen], is_fake
            )
    return found


if __name__ == "__main__":
    config_flags.run(main, TokenLossesConfig)
