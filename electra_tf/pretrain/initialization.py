"""Initializes a run from a checkpoint: the original's, ours or others'.

A checkpoint in the run's own directory takes precedence: `init_checkpoint` is
only read if there is none.
"""

from typing import NamedTuple

from etils import epath

from electra_tf.checkpoint import architecture, loading, weights
from electra_tf.checkpoint.weights import Weights
from electra_tf.config.objectives import get_class
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.training.updates import checkpoint_variables
from electra_tf.util import console
from electra_tf.util.errors import UserError, listed, shape_differences


class InitialWeights(NamedTuple):
    """Weights that a run starts from; none by default."""

    model: Weights | None = None
    generator: Weights | None = None


def read_initial_weights(
    config: PretrainingConfig, vocabulary: Vocabulary | None = None
) -> InitialWeights:
    """Reads all checkpoints that a new run starts from."""
    training, model, generator = config.training, None, None
    if training.init_checkpoint:
        model = read_model(config, vocabulary)
    if training.generator_checkpoint:
        generator = read_generator(config)
    objective = get_class(config.objective.objective)
    if objective.is_frozen(config) and not (model or generator):
        raise UserError("A frozen generator needs --generator_checkpoint.")
    return InitialWeights(model, generator)


def assign_initial_weights(
    model: PretrainingModel, initial_weights: InitialWeights
) -> None:
    assigned = set()
    if initial_weights.model is not None:
        assigned |= assign(model, initial_weights.model)
    if initial_weights.generator is not None:
        assigned |= assign_generator(model, initial_weights.generator)
    frozen = {v.path for v in model.non_trainable_weights}
    if missing := sorted(frozen - assigned):
        raise UserError(
            f"No checkpoint has the frozen generator's {listed(missing)}."
        )


def read_model(
    config: PretrainingConfig, vocabulary: Vocabulary | None = None
) -> Weights:
    """Reads `init_checkpoint` and compares sizes, letter case and step."""
    training, corpus, model = config.training, config.corpus, config.model
    loaded = loading.read(
        training.init_checkpoint,
        num_attention_heads=model.num_attention_heads,
        generator_num_attention_heads=model.generator_num_attention_heads,
    )
    # Shapes alone do not show all of these.
    name = config.objective.objective
    objective = get_class(name)
    generator = loaded.architecture.generator and model.generator(1)
    flags = {
        **architecture.encoder_flags(model.discriminator(1), generator),
        "generator_sharing": model.generator_sharing,
        "objective": name if objective.has_own_generator else "mlm",
        "generator_type": objective.generator_type(config),
        "do_lower_case": corpus.do_lower_case,
        "strip_accents": corpus.strip_accents,
    }
    wanted = architecture.size_flags(loaded.architecture)
    if vocabulary is None and epath.Path(config.vocab_file).exists():
        vocabulary = Vocabulary.from_file(config.vocab_file)
    both = (vocabulary, loaded.vocabulary)
    has_same_vocabulary = None in both or both[0] == both[1]
    if has_same_vocabulary and (vocabulary or not corpus.vocab_file):
        wanted |= weights.text_flags(loaded)
    if others := [f"--{k}={v}" for k, v in wanted.items() if flags.get(k) != v]:
        raise UserError(f"{loaded.origin} needs {' '.join(others)}.")
    num_steps = training.num_train_steps
    if loaded.step >= num_steps and not training.reset_step:
        raise UserError(
            f"num_train_steps={num_steps:,} ends before init_checkpoint's step "
            f"{loaded.step:,}: set --reset_step to count from 0."
        )
    return loaded


def read_generator(config: PretrainingConfig) -> Weights:
    """Reads `generator_checkpoint` and compares the sizes."""
    name = config.objective.objective
    objective = get_class(name)
    kind = objective.generator_type(config)
    if kind != "transformer" or not objective.has_own_generator:
        raise UserError(
            f"objective={name} with generator_type={kind} has no separate "
            "masked language model for generator_checkpoint."
        )
    path = config.training.generator_checkpoint
    loaded = weights.select(loading.read(path), "generator")
    stored, wanted = (
        architecture.encoder_flags(encoder, None)
        for encoder in (loaded.architecture.encoder, config.model.generator(1))
    )
    if loaded.heads_are_assumed:
        del stored["num_attention_heads"]
    if others := [f"{k}={v}" for k, v in stored.items() if wanted[k] != v]:
        raise UserError(f"The generator of {path} has {', '.join(others)}.")
    return loaded


def assign_generator(model: PretrainingModel, loaded: Weights) -> set[str]:
    """Assigns the weights of a generator to a new model, without slots."""
    fitted = weights.without_slots(_fit(model, loaded))
    targets = {v.path: v for v in model.weights}
    assigned = set()
    for name, array in fitted.arrays.items():
        own = "generator" + name.removeprefix("electra")
        path = own if own in targets else name  # else a shared table
        if path in targets:
            targets[path].assign(array)
            assigned.add(path)
    console.say(
        f"Initialized the generator from {loaded.origin}: {len(assigned)} "
        "weights."
    )
    return assigned


def assign(model: PretrainingModel, loaded: Weights) -> set[str]:
    """Assigns the weights, slots and step that were read to a new model."""
    fitted = _fit(model, loaded)
    targets = {v.path: v for v in model.weights}
    sources = weights.without_slots(fitted).arrays
    sources.pop(architecture.STEP, None)
    differences = shape_differences(
        {name: tuple(v.shape) for name, v in targets.items()},
        {name: array.shape for name, array in sources.items()},
    )
    if differences:
        raise UserError(
            f"{loaded.origin} does not hold exactly the weights of objective="
            f"{model.config.objective.objective}:{differences}"
        )
    for name, array in sources.items():
        targets[name].assign(array)
    variables = checkpoint_variables(model)
    common = variables.keys() & fitted.arrays.keys()
    slots = [name for name in common if name.endswith(architecture.SLOTS)]
    for name in slots:
        variables[name].assign(fitted.arrays[name])
    if not model.config.training.reset_step:
        model.optimizer.iterations.assign(fitted.step)
    console.say(
        f"Initialized from {loaded.origin}: {len(sources)} weights, "
        f"{len(slots)} slots of Adam, to continue from step "
        f"{model.optimizer.iterations.numpy():,}."
    )
    return set(sources)


def _fit(model: PretrainingModel, loaded: Weights) -> Weights:
    """Resizes embedding tables to the model's, and prints changes."""
    vocabulary, stored = model.vocabulary, loaded.architecture.encoder
    has_same_words = loaded.vocabulary in (None, vocabulary)
    if stored.vocab_size != vocabulary.size or not has_same_words:
        loaded, change = weights.resize_vocabulary(
            loaded, vocabulary.size, vocabulary, seed=model.config.training.seed
        )
        console.say(change)
    positions = model.config.model.max_position_embeddings
    if positions != stored.max_position_embeddings:
        loaded, change = weights.resize_positions(loaded, positions)
        console.say(change)
    return loaded
