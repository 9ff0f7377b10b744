"""Starts a run from the weights of another: the original's, ours or others'.

A checkpoint in the run's own directory comes first: `init_checkpoint` counts
only where there is none.
"""

import dataclasses

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import checkpoint_formats, weights
from electra_tf.model.architecture import (
    GENERATOR_HEAD,
    SLOTS,
    STEP,
    Architecture,
)
from electra_tf.model.bert_config import BertConfig, CommonConfig
from electra_tf.model.weights import Resizing, Weights
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.util import console, differences
from electra_tf.util.errors import UserError

_COMMON = {field.name for field in dataclasses.fields(CommonConfig)}


def read(config: PretrainingConfig) -> Weights:
    """Reads `init_checkpoint` and checks that its networks have these sizes.

    Args:
      config: the whole configuration.

    Returns:
      The weights.

    Raises:
      UserError: if it cannot be read, has networks of other sizes, naming the
        flags to give, or is at the end of the training already.
    """
    path = config.training.init_checkpoint
    loaded = checkpoint_formats.read(
        path,
        num_attention_heads=config.model.discriminator(1).num_attention_heads,
        generator_num_attention_heads=config.model.generator(
            1
        ).num_attention_heads,
    )
    wanted = _flags(
        config.model.discriminator(1),
        config.model.generator(1) if loaded.architecture.generator else None,
    ) | {
        "generator_sharing": config.model.generator_sharing,
        "objective": config.objective.objective,
        "generator_type": "two_tower"
        if config.objective.has_two_towers
        else config.objective.generator_type,
    }
    flags = size_flags(loaded.architecture)
    others = [
        f"--{name}={value}"
        for name, value in flags.items()
        if wanted.get(name) != value
    ]
    if others:
        raise UserError(
            "`init_checkpoint` must hold networks of the configured sizes. "
            f"Received: {path}, of other sizes. Give {' '.join(others)}."
        )
    num_train_steps = config.training.num_train_steps
    if loaded.step >= num_train_steps and not config.training.reset_step:
        raise UserError(
            "`num_train_steps` must be more than the updates that "
            f"init_checkpoint has behind it, {loaded.step:,}. Received: "
            f"num_train_steps={num_train_steps}. Raise it, or give "
            "--reset_step to count from 0."
        )
    return loaded


def assign(model: PretrainingModel, loaded: Weights) -> None:
    """Gives a new model the weights, slots and step that were read.

    Word embeddings follow the words where both vocabularies are known, else
    their numbers; position embeddings are cut or repeated. What changes is
    said.

    Args:
      model: with its optimizer, untrained.
      loaded: of `read`.

    Raises:
      UserError: if one of the two has weights that the other has not, unless
        `init_partially` allows it.
    """
    config = model.config
    fitted = _fit(model, loaded)
    targets = {v.path: v for v in model.trainable_variables}
    sources = {
        name: array
        for name, array in fitted.arrays.items()
        if name != STEP and not name.endswith(SLOTS)
    }
    text = differences.of_shapes(
        {name: tuple(v.shape) for name, v in targets.items()},
        {name: array.shape for name, array in sources.items()},
        unexpected="not in this objective",
    )
    if text and not config.training.init_partially:
        raise UserError(
            "`init_checkpoint` must hold exactly the weights of the objective "
            f"{config.objective.objective!r}. Received: {loaded.origin}{text}\n"
            "Give --init_partially to start what is missing at random and "
            "leave the rest out."
        )
    used = {
        name
        for name in targets.keys() & sources.keys()
        if tuple(targets[name].shape) == sources[name].shape
    }
    for name in used:
        targets[name].assign(sources[name])
    num_slots = _assign_slots(model, fitted, used)
    if not config.training.reset_step:
        model.optimizer.iterations.assign(fitted.step)
    console.say(
        f"Initialized from {loaded.origin}: {len(used)} of {len(targets)} "
        f"weights, {num_slots} slots of Adam, to go on at step "
        f"{int(model.optimizer.iterations):,}."
    )
    if text:
        console.say(f"At random or left out:{text}")


def size_flags(architecture: Architecture) -> dict[str, int | str]:
    """Returns the flags of run_pretraining that make these networks.

    Args:
      architecture: of a checkpoint.
    """
    flags = _flags(architecture.encoder, architecture.generator)
    if architecture.generator is not None or len(architecture.heads) > 1:
        flags["generator_sharing"] = architecture.generator_sharing
    if architecture.is_two_tower:
        flags["generator_type"] = "two_tower"
    if architecture.heads == (GENERATOR_HEAD,):
        flags["objective"] = "mlm"
    return flags


def resized(table: str, resizing: Resizing) -> str:
    """Says what became of the rows of a table.

    Args:
      table: its name.
      resizing: what became of them.
    """
    return (
        f"{table}: {resizing.kept:,} rows kept, {resizing.new:,} new, "
        f"{resizing.dropped:,} dropped."
    )


def _flags(
    encoder: BertConfig, generator: BertConfig | None
) -> dict[str, int | str]:
    flags = {
        name: value
        for name, value in encoder.to_dict().items()
        if name not in _COMMON and name != "vocab_size"
    }
    if generator is not None:
        flags |= {
            "generator_width": generator.hidden_size,
            "generator_num_hidden_layers": generator.num_hidden_layers,
            "generator_num_attention_heads": generator.num_attention_heads,
            "generator_intermediate_size": generator.intermediate_size,
        }
    return flags


def _fit(model: PretrainingModel, loaded: Weights) -> Weights:
    """Gives tables the number of rows that the model has, and says so."""
    vocabulary = model.vocabulary
    is_same = loaded.vocabulary in (None, vocabulary)
    rows = loaded.architecture.encoder.vocab_size
    if rows != vocabulary.size or not is_same:
        loaded, resizing = weights.resize_vocabulary(
            loaded,
            vocabulary.size,
            vocabulary,
            seed=model.config.training.seed,
        )
        console.say(resized("Word embeddings", resizing))
    positions = model.config.model.max_position_embeddings
    if positions != loaded.architecture.encoder.max_position_embeddings:
        loaded, resizing = weights.resize_positions(loaded, positions)
        console.say(resized("Position embeddings", resizing))
    return loaded


def _assign_slots(
    model: PretrainingModel, fitted: Weights, names: set[str]
) -> int:
    """Assigns Adam's slots of some weights if there are any; counts them."""
    optimizer = model.optimizer
    slots = {}
    for kind, variables in zip(
        SLOTS, (optimizer.means, optimizer.squares), strict=True
    ):
        for variable, slot in zip(
            model.trainable_variables, variables, strict=True
        ):
            if variable.path in names:
                slots[f"{variable.path}/{kind}"] = slot
    used = slots.keys() & fitted.arrays.keys()
    for name in used:
        slots[name].assign(fitted.arrays[name])
    return len(used)
