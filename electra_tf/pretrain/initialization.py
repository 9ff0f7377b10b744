"""Initializes a run from a checkpoint: the original's, ours or others'.

A checkpoint in the run's own directory takes precedence: `init_checkpoint` is
only read if there is none.
"""

from typing import NamedTuple

from electra_tf.checkpoint import checkpoint_formats, resizing, weights
from electra_tf.checkpoint.architecture import (
    CLOZE_HEAD,
    GENERATOR_HEAD,
    SLOTS,
    STEP,
    encoder_flags,
    generator_flags,
    size_flags,
)
from electra_tf.checkpoint.weights import Weights
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.training.updates import checkpoint_variables
from electra_tf.util import console, storage
from electra_tf.util.errors import UserError, listed, shape_differences


class InitialWeights(NamedTuple):
    """Weights that a run starts from; none by default."""

    model: Weights | None = None
    generator: Weights | None = None


def read_initial_weights(
    config: PretrainingConfig, vocabulary: Vocabulary | None = None
) -> InitialWeights:
    """Reads all checkpoints that a new run starts from."""
    training = config.training
    has_any = training.init_checkpoint or training.generator_checkpoint
    if config.objective.has_frozen_generator and not has_any:
        raise UserError(
            "A frozen generator must have been trained. Received: no "
            "checkpoint. Name one with --generator_checkpoint, of a run with "
            "objective=mlm or with a generator of the configured sizes."
        )
    return InitialWeights(
        read(config, vocabulary) if training.init_checkpoint else None,
        read_generator(config) if training.generator_checkpoint else None,
    )


def assign_initial_weights(
    model: PretrainingModel, initial_weights: InitialWeights
) -> None:
    """Assigns the weights that were read to a new model."""
    known = set()
    if initial_weights.model is not None:
        known |= assign(model, initial_weights.model)
    if initial_weights.generator is not None:
        known |= assign_generator(model, initial_weights.generator)
    frozen = {v.path for v in model.non_trainable_weights}
    if text := listed(sorted(frozen - known)):
        raise UserError(
            "A frozen generator must have all its weights from a checkpoint. "
            f"Received: none for {text}. Name one with --generator_checkpoint."
        )


def read(
    config: PretrainingConfig, vocabulary: Vocabulary | None = None
) -> Weights:
    """Reads `init_checkpoint` and checks the sizes of its networks."""
    loaded = checkpoint_formats.read(
        config.training.init_checkpoint,
        num_attention_heads=config.model.num_attention_heads,
        generator_num_attention_heads=config.model.generator_num_attention_heads,
    )
    if not config.training.init_partially:
        _check_networks(config, loaded)
    _check_sizes(config, loaded)
    if vocabulary is None and storage.exists(config.vocab_file):
        vocabulary = Vocabulary.from_file(config.vocab_file)
    elif vocabulary is None and not config.corpus.vocab_file:
        vocabulary = loaded.vocabulary
    if vocabulary is not None:
        _check_text_flags(config, vocabulary, loaded)
    num_train_steps = config.training.num_train_steps
    if loaded.step >= num_train_steps and not config.training.reset_step:
        raise UserError(
            "`num_train_steps` must be more than the step of init_checkpoint, "
            f"{loaded.step:,}. Received: num_train_steps={num_train_steps}. "
            "Raise it, or set --reset_step to count from 0."
        )
    return loaded


def _check_networks(config: PretrainingConfig, loaded: Weights) -> None:
    """Refuses one network alone for an objective with two."""
    objective = config.objective
    heads = {*loaded.architecture.heads}
    is_generator = heads == {GENERATOR_HEAD} and (
        loaded.architecture.generator is None
    )
    path = config.training.init_checkpoint
    both = "Name both, --init_checkpoint=DISCRIMINATOR,GENERATOR"
    only = ", start only the generator from it with --generator_checkpoint"
    if not objective.has_own_generator:
        both, only = "Name a discriminator", ""
    if is_generator and objective.traits.has_own_generator:
        raise UserError(
            "`init_checkpoint` must hold the main network of the objective "
            f"{objective.objective!r}. Received: {path}, a generator alone. "
            f"{both}{only}, or set --objective=mlm."
        )
    if objective.has_own_generator and not heads & {GENERATOR_HEAD, CLOZE_HEAD}:
        raise UserError(
            "`init_checkpoint` must hold a generator for the objective "
            f"{objective.objective!r}. Received: {path}, a "
            f"{loaded.networks[0]} alone. {both}, or set --init_partially to "
            "start the generator at random."
        )


def _check_sizes(config: PretrainingConfig, loaded: Weights) -> None:
    """Refuses networks of other sizes than the configured ones."""
    path, objective = config.training.init_checkpoint, config.objective
    encoder = config.model.discriminator(1)
    generator = config.model.generator(1)
    has_generator = loaded.architecture.generator is not None
    wanted = encoder_flags(encoder, generator if has_generator else None) | {
        "generator_sharing": config.model.generator_sharing,
        "objective": objective.objective
        if objective.traits.has_own_generator
        else "mlm",
        "generator_type": "two_tower"
        if objective.has_two_towers
        else objective.generator_type,
    }
    flags = size_flags(loaded.architecture)
    if others := [f"--{k}={v}" for k, v in flags.items() if wanted.get(k) != v]:
        raise UserError(
            "`init_checkpoint` must fit the configured networks. Received: "
            f"{path}, whose networks need other flags. Give {' '.join(others)}."
        )


def _check_text_flags(
    config: PretrainingConfig, vocabulary: Vocabulary, loaded: Weights
) -> None:
    """Refuses another letter case for the vocabulary of the checkpoint."""
    multiple = config.corpus.pad_vocab_to_multiple
    has_other_vocabulary = loaded.vocabulary and (
        loaded.vocabulary.padded(multiple) != vocabulary.padded(multiple)
    )
    others = [
        f"--{'' if is_set else 'no'}{name}"
        for name, is_set in weights.text_flags(loaded).items()
        if getattr(config.corpus, name) != is_set
    ]
    if others and not has_other_vocabulary:
        raise UserError(
            "`init_checkpoint` must keep the letter case and accents of "
            f"its vocabulary. Received: {loaded.origin}, trained with others. "
            f"Give {' '.join(others)}, or another --vocab_file."
        )


def read_generator(config: PretrainingConfig) -> Weights:
    """Reads `generator_checkpoint` and checks the sizes of its generator."""
    objective = config.objective
    if objective.has_two_towers or not objective.has_own_generator:
        raise UserError(
            "`generator_checkpoint` needs an objective with a separate masked "
            f"language model. Received: objective={objective.objective}, "
            f"generator_type={objective.generator_type}."
        )
    path = config.training.generator_checkpoint
    loaded = weights.select(checkpoint_formats.read(path), "generator")
    flags, given = (
        {**generator_flags(bert), "embedding_size": bert.embedding_size}
        for bert in (loaded.architecture.encoder, config.model.generator(1))
    )
    if loaded.heads_are_assumed:
        del flags["generator_num_attention_heads"]
    if others := [f"{k}={v}" for k, v in flags.items() if given[k] != v]:
        raise UserError(
            "`generator_checkpoint` must hold a generator of the configured "
            f"sizes. Received: {path}, with {', '.join(others)}. Give the "
            "flags of these names; embeddings of the discriminator's width "
            "need --generator_sharing=gradient_disentangled."
        )
    return loaded


def assign_generator(model: PretrainingModel, loaded: Weights) -> set[str]:
    """Assigns the weights of a generator to a new model, without slots."""
    fitted = weights.without_slots(_fit(model, loaded))
    targets = {v.path: v for v in model.weights}
    known = set()
    for name, array in fitted.arrays.items():
        own = "generator" + name.removeprefix("electra")
        path = own if own in targets else name  # else a shared table
        if path in targets:
            targets[path].assign(array)
            known.add(path)
    console.say(
        f"Initialized the generator from {loaded.origin}: {len(known)} weights."
    )
    return known


def assign(model: PretrainingModel, loaded: Weights) -> set[str]:
    """Assigns the weights, slots and step that were read to a new model."""
    config = model.config
    fitted = _fit(model, loaded)
    targets = {v.path: v for v in model.weights}
    sources = {
        name: array
        for name, array in fitted.arrays.items()
        if name != STEP and not name.endswith(SLOTS)
    }
    text = shape_differences(
        {name: tuple(v.shape) for name, v in targets.items()},
        {name: array.shape for name, array in sources.items()},
        unexpected="not in this objective",
    )
    if text and not config.training.init_partially:
        raise UserError(
            "`init_checkpoint` must hold exactly the weights of the objective "
            f"{config.objective.objective!r}. Received: {loaded.origin}{text}\n"
            "Set --init_partially to initialize missing weights at random and "
            "ignore unexpected ones."
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
        f"weights, {num_slots} slots of Adam, to continue from step "
        f"{model.optimizer.iterations.numpy():,}."
    )
    if text:
        console.say(f"Initialized at random or ignored:{text}")
    return used


def _fit(model: PretrainingModel, loaded: Weights) -> Weights:
    """Resizes embedding tables to those of the model, and prints changes."""
    vocabulary = model.vocabulary
    is_same = loaded.vocabulary in (None, vocabulary)
    rows = loaded.architecture.encoder.vocab_size
    if rows != vocabulary.size or not is_same:
        loaded, change = resizing.resize_vocabulary(
            loaded, vocabulary.size, vocabulary, seed=model.config.training.seed
        )
        console.say(change.describe("Word embeddings"))
    positions = model.config.model.max_position_embeddings
    if positions != loaded.architecture.encoder.max_position_embeddings:
        loaded, change = resizing.resize_positions(loaded, positions)
        console.say(change.describe("Position embeddings"))
    return loaded


def _assign_slots(
    model: PretrainingModel, fitted: Weights, names: set[str]
) -> int:
    """Assigns Adam's slots of some weights if there are any."""
    variables = checkpoint_variables(model)
    slots = {f"{name}/{kind}" for name in names for kind in SLOTS}
    slots &= variables.keys() & fitted.arrays.keys()
    for name in slots:
        variables[name].assign(fitted.arrays[name])
    return len(slots)
