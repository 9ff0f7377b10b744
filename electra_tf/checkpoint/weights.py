"""The weights of networks as arrays: selected, merged, resized, assigned."""

import dataclasses
import re
from collections.abc import Mapping

import keras
import numpy as np

from electra_tf.checkpoint.architecture import (
    CORRECTOR_HEAD,
    DETECTION_LAYERS,
    DISCRIMINATOR_HEAD,
    GENERATOR_HEAD,
    HEADS,
    SHARED,
    SLOTS,
    STEP,
    Architecture,
    is_in,
)
from electra_tf.config.model import DIFFERENCE, TABLES
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import (
    NonFiniteLossError,
    UserError,
    advise,
    listed,
)

Arrays = Mapping[str, np.ndarray]
"""Name of a variable -> its value."""
ENCODER = "encoder"

_HEADS = {
    "discriminator": DISCRIMINATOR_HEAD,
    "corrector": CORRECTOR_HEAD,
    "generator": GENERATOR_HEAD,
}
NETWORKS = tuple(_HEADS)
_WORDS, _, _POSITIONS = (f"/embeddings/{table}" for table in TABLES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights:
    """The arrays of a checkpoint, with its vocabulary and settings."""

    origin: str
    arrays: Arrays
    architecture: Architecture
    vocabulary: Vocabulary | None = None
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    max_seq_length: int = 0
    labels: tuple[str, ...] = ()
    value_range: tuple[float, ...] = ()
    task_kind: str = ""
    problem_type: str = ""  # Hugging Face's, of a classifier
    heads_are_assumed: bool = False
    objective: str = ""

    def known_vocabulary(self) -> Vocabulary:
        """Returns the vocabulary; raises if there is none."""
        if self.vocabulary is None:
            raise UserError(
                f"No vocabulary beside {self.origin}: set --vocab_file."
            )
        return self.vocabulary

    @property
    def step(self) -> int:
        """Updates done; 0 if not known."""
        return int(self.arrays.get(STEP, 0))

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks of `NETWORKS` that `select` can extract."""
        heads = {*self.architecture.heads}
        readers = {DISCRIMINATOR_HEAD, CORRECTOR_HEAD}  # of the main encoder
        if self.architecture.generator is None:
            readers.add(GENERATOR_HEAD)
        if not heads & readers:  # an encoder without a head
            heads.add(DISCRIMINATOR_HEAD)
        return tuple(name for name in NETWORKS if _HEADS[name] in heads)


def assign(model: keras.layers.Layer, arrays: Arrays) -> None:
    for variable in model.weights:
        variable.assign(arrays[variable.path])


def text_flags(weights: Weights) -> dict[str, bool]:
    """Returns the flags of run_pretraining that read text as in training."""
    flags = {"do_lower_case": weights.do_lower_case}
    if weights.do_lower_case is not False:
        flags["strip_accents"] = weights.strip_accents
    return {name: x for name, x in flags.items() if x is not None}


def with_case(weights: Weights) -> Weights:
    """Infers from the vocabulary whether text is lower-cased, if not known."""
    words = weights.vocabulary
    if weights.do_lower_case is not None or not (words and words.is_cased):
        return weights
    advise(
        f"{weights.origin} does not say do_lower_case, which is taken to be "
        "False, as its vocabulary has capitals."
    )
    return dataclasses.replace(weights, do_lower_case=False)


def check_finite(weights: Weights) -> None:
    """Checks that all weights are finite, except slots."""
    arrays = without_slots(weights).arrays.items()
    if bad := [name for name, x in arrays if not np.isfinite(x).all()]:
        raise NonFiniteLossError(
            f"{weights.origin} has infinite or NaN values in {listed(bad)}."
        )


def select(weights: Weights, network: str) -> Weights:
    """Extracts a single network, with its slots."""
    if network not in (*weights.networks, ENCODER):
        raise UserError(
            f"{weights.origin} has no {network} that can be used alone, only "
            f"{', '.join(weights.networks)}."
        )
    old = weights.architecture
    if network != "generator" and old.sharing == "gradient_disentangled":
        return select(_with_summed_tables(weights), network)
    head = _HEADS.get(network, "")
    encoder, scopes = old.encoder, {"electra": "electra"}
    if network == "generator" and old.generator is not None:
        encoder = old.generator
        scopes = {"generator": "electra"}
        scopes |= {name: name for name in SHARED[old.sharing]}
    alone = GENERATOR_HEAD if network == "corrector" else head
    scopes |= {head or STEP: alone or STEP, STEP: STEP}
    if network == "discriminator":
        scopes["task_specific"] = "task_specific"
        scopes[DETECTION_LAYERS] = "electra/encoder"  # instead of its own
    arrays = {
        new + name.removeprefix(scope): array
        for scope, new in scopes.items()
        for name, array in weights.arrays.items()
        if is_in(name, (scope,))
    }
    return dataclasses.replace(
        weights,
        arrays=arrays,
        architecture=Architecture(
            encoder=encoder,
            heads=(alone,) if head in old.heads else (),
            tasks=old.tasks if network == "discriminator" else {},
        ),
    )


def _with_summed_tables(weights: Weights) -> Weights:
    """Adds the generator's tables to the discriminator's differences."""
    arrays = {}
    for name, array in weights.arrays.items():
        if name.endswith(DIFFERENCE):
            table = name.removesuffix(DIFFERENCE)
            array = (
                array + weights.arrays[table.replace("electra", "generator")]
            )
        arrays[name.replace(DIFFERENCE, "")] = array
    sizes = dataclasses.replace(weights.architecture, sharing="none")
    return dataclasses.replace(weights, arrays=arrays, architecture=sizes)


def merge(main: Weights, generator: Weights) -> Weights:
    """Joins a main network and a generator, as in pre-training."""
    old, other = main.architecture, generator.architecture
    origins = f"{main.origin},{generator.origin}"
    if GENERATOR_HEAD in old.heads or other.heads != (GENERATOR_HEAD,):
        raise UserError(
            f"{origins} are not a discriminator and a generator, in this order."
        )
    for name in ("max_position_embeddings", "type_vocab_size"):
        if getattr(old.encoder, name) != getattr(other.encoder, name):
            raise UserError(f"{origins} differ in {name}.")
    sharing = next(
        kind
        for kind, scopes in SHARED.items()
        if _are_equal(generator, main, scopes)
    )
    is_one = _are_equal(generator, main, ("electra",))
    config = other.encoder
    if sharing == "none" and config.embedding_size != config.hidden_size:
        raise UserError(f"{origins} share no embeddings of a common width.")
    shared = (STEP, "electra") if is_one else (STEP, *SHARED[sharing])
    own = {
        re.sub("^electra/", "generator/", name): array
        for name, array in generator.arrays.items()
        if not is_in(name, shared)
    }
    heads = {*old.heads, *other.heads}
    return dataclasses.replace(
        main,
        origin=origins,
        arrays={**main.arrays, **own},
        architecture=dataclasses.replace(
            old,
            generator=None if is_one else config,
            sharing=sharing,
            heads=tuple(head for head in HEADS if head in heads),
        ),
    )


def _are_equal(one: Weights, other: Weights, scopes: tuple[str, ...]) -> bool:
    """Returns whether all arrays of some scopes are equal, bit for bit."""
    return all(
        np.array_equal(one.arrays.get(name), other.arrays.get(name))
        for name in one.arrays.keys() | other.arrays.keys()
        if is_in(name, scopes)
    )


def with_slots(weights: Weights) -> Weights:
    """Adds missing training state: slots of 0, step 0."""
    arrays = dict(weights.arrays)
    for name in weights.architecture.shapes():
        for slot in SLOTS:
            arrays.setdefault(f"{name}/{slot}", np.zeros_like(arrays[name]))
    arrays.setdefault(STEP, np.array(0, np.int64))
    return dataclasses.replace(weights, arrays=arrays)


def without_slots(weights: Weights) -> Weights:
    arrays = {n: a for n, a in weights.arrays.items() if not n.endswith(SLOTS)}
    return dataclasses.replace(weights, arrays=arrays)


def resize_vocabulary(
    weights: Weights,
    size: int,
    vocabulary: Vocabulary | None = None,
    *,
    seed: int = 0,
) -> tuple[Weights, str]:
    """Resizes the word embeddings, and describes it in a line.

    Tokens of both vocabularies keep their rows; without vocabularies, rows
    keep their places. New rows are the mean and noise, new slots 0.
    """
    before, old = weights.vocabulary, weights.architecture.encoder.vocab_size
    if vocabulary is not None and vocabulary.size > size:
        raise UserError(f"{vocabulary.size} tokens exceed vocab_size={size}.")
    rows = np.arange(size)  # for each new row the index of the old one, or -1
    if before is not None and vocabulary is not None:
        ids = [before.ids.get(token, -1) for token in vocabulary.tokens]
        rows = np.array(ids + [-1] * (size - vocabulary.size))
    elif before is not None and before.size > size:
        if before.sentencepiece:
            raise UserError(f"{before.size} pieces exceed vocab_size={size}.")
        tokens = before.tokens[:size]
        added = tuple(x for x in before.added if x in tokens)
        before = dataclasses.replace(before, tokens=tokens, added=added)
    rows[rows >= old] = -1
    random = np.random.default_rng(seed)
    scale = weights.architecture.encoder.initializer_range
    arrays = dict(weights.arrays)
    for name, array in arrays.items():
        weight = _weight_of(name)
        if not weight.endswith((_WORDS, _WORDS + DIFFERENCE, "/output_bias")):
            continue
        fill = array.mean(0) if weight == name else np.zeros_like(array[0])
        if name.endswith(_WORDS):
            noise = random.normal(size=(size, array.shape[1]))
            fill = fill + np.clip(noise, -2, 2) * scale
        is_known = (rows >= 0).reshape([-1] + [1] * (array.ndim - 1))
        resized = np.where(is_known, array[np.maximum(rows, 0)], fill)
        arrays[name] = resized.astype(array.dtype)
    sizes = weights.architecture.with_fields(vocab_size=size)
    weights = dataclasses.replace(
        weights,
        arrays=arrays,
        architecture=sizes,
        vocabulary=vocabulary or before,
    )
    kept = int((rows >= 0).sum())
    return weights, _counts("Word embeddings", kept, old, size)


def resize_positions(weights: Weights, size: int) -> tuple[Weights, str]:
    """Resizes the position embeddings; new ones repeat the old."""
    old = weights.architecture.encoder.max_position_embeddings
    arrays = dict(weights.arrays)
    for name, array in arrays.items():
        weight = _weight_of(name)
        if weight.endswith((_POSITIONS, _POSITIONS + DIFFERENCE)):
            arrays[name] = np.resize(array, (size, array.shape[1]))
            if weight != name:
                arrays[name][len(array) :] = 0
    longer = weights.architecture.with_fields(max_position_embeddings=size)
    weights = dataclasses.replace(weights, arrays=arrays, architecture=longer)
    return weights, _counts("Position embeddings", min(old, size), old, size)


def keep_layers(weights: Weights, count: int) -> Weights:
    """Keeps the lowest layers of an encoder, with their slots.

    Source: Sajjad et al., 2023, "On the Effect of Dropping Layers of
    Pre-trained Transformer Models", top-layer dropping.
    """
    old = weights.architecture.encoder.num_hidden_layers
    if count > old:
        raise UserError(f"{weights.origin} has {old} layers, not {count}.")
    dropped = tuple(f"electra/encoder/layer_{i}" for i in range(count, old))
    arrays = {n: x for n, x in weights.arrays.items() if not is_in(n, dropped)}
    fewer = weights.architecture.with_fields(num_hidden_layers=count)
    return dataclasses.replace(weights, arrays=arrays, architecture=fewer)


def _weight_of(name: str) -> str:
    """Returns the weight that a slot belongs to; a weight's own name."""
    return re.sub("/adam_[mv]$", "", name)


def _counts(table: str, kept: int, old: int, new: int) -> str:
    return (
        f"{table}: {kept:,} rows kept, {new - kept:,} new, "
        f"{old - kept:,} dropped."
    )
