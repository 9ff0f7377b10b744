"""The weights of networks as arrays: selected, merged and resized."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import keras
import numpy as np

from electra_tf.checkpoint.architecture import (
    CORRECTOR_HEAD,
    DETECTION_LAYERS,
    DISCRIMINATOR_HEAD,
    GENERATOR_HEAD,
    HEADS,
    SLOTS,
    STEP,
    Architecture,
)
from electra_tf.config.model import DIFFERENCE, BertConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import NonFiniteLossError, UserError, listed

Arrays = Mapping[str, np.ndarray]
"""Name of a variable -> its value."""
NETWORKS = ("discriminator", "corrector", "generator")
ENCODER = "encoder"
WORD_EMBEDDINGS = "/embeddings/word_embeddings"
POSITION_EMBEDDINGS = "/embeddings/position_embeddings"
"""Names of tables, after the scope of their network."""

_DISENTANGLED = "gradient_disentangled"
# `generator_sharing` -> scopes of the shared tables, outside the generator's.
_SHARED = {
    "embeddings": ("electra/embeddings",),
    "token_and_position_embeddings": (
        f"electra{WORD_EMBEDDINGS}",
        "electra/embeddings/position_embeddings",
    ),
    "token_embeddings": (f"electra{WORD_EMBEDDINGS}",),
}
_HEADS = {
    "discriminator": DISCRIMINATOR_HEAD,
    "corrector": CORRECTOR_HEAD,
    "generator": GENERATOR_HEAD,
}


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
    heads_are_assumed: bool = False
    objective: str = ""

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


def text_flags(weights: Weights) -> dict[str, bool]:
    """Returns the flags of run_pretraining that read text as in training."""
    flags = {"do_lower_case": weights.do_lower_case}
    if weights.do_lower_case is not False:
        flags["strip_accents"] = weights.strip_accents
    return {
        name: is_set for name, is_set in flags.items() if is_set is not None
    }


def check_vocabulary(weights: Weights) -> None:
    """Checks that each token has a row in the table, which may have more."""
    rows = weights.architecture.encoder.vocab_size
    vocabulary = weights.vocabulary
    if vocabulary is not None and vocabulary.size > rows:
        raise UserError(
            f"{weights.origin} has {rows:,} word embeddings for a vocabulary "
            f"of {vocabulary.size:,} tokens: set --vocab_file."
        )


def check_finite(weights: Weights) -> None:
    """Checks that all weights are finite, except slots."""
    bad = [
        name
        for name, array in without_slots(weights).arrays.items()
        if not np.isfinite(array).all()
    ]
    if bad:
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
    if network != "generator":
        weights = _with_summed_tables(weights)
    old = weights.architecture
    head = _HEADS.get(network, "")
    encoder, scopes = old.encoder, {"electra": "electra"}
    if network == "generator":
        if old.generator is not None:
            encoder = old.generator
            scopes = {"generator": "electra"}
            scopes |= {name: name for name in _SHARED.get(old.sharing, ())}
    alone = GENERATOR_HEAD if network == "corrector" else head
    scopes |= {head or STEP: alone or STEP, STEP: STEP}
    if network == "discriminator":
        scopes["task_specific"] = "task_specific"
        scopes[DETECTION_LAYERS] = "electra/encoder"  # instead of its own
    arrays = {
        new + name.removeprefix(scope): array
        for scope, new in scopes.items()
        for name, array in weights.arrays.items()
        if _is_in(name, scope)
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
    if weights.architecture.generator_sharing != _DISENTANGLED:
        return weights
    arrays = {}
    for name, array in weights.arrays.items():
        if name.endswith(DIFFERENCE):
            table = name.removesuffix(DIFFERENCE)
            base = "generator" + table.removeprefix("electra")
            array = array + weights.arrays[base]
        arrays[name.replace(DIFFERENCE, "")] = array
    architecture = dataclasses.replace(weights.architecture, sharing="none")
    return dataclasses.replace(
        weights, arrays=arrays, architecture=architecture
    )


def as_corrector(network: Weights) -> Weights:
    """Renames a masked language model's head to the corrector's."""
    if network.architecture.heads != (GENERATOR_HEAD,):
        raise UserError(f"{network.origin} is no masked language model.")
    arrays = {
        name.replace(GENERATOR_HEAD, CORRECTOR_HEAD): array
        for name, array in network.arrays.items()
    }
    architecture = dataclasses.replace(
        network.architecture, heads=(CORRECTOR_HEAD,)
    )
    return dataclasses.replace(
        network, arrays=arrays, architecture=architecture
    )


def merge_heads(discriminator: Weights, corrector: Weights) -> Weights:
    """Joins a discriminator and a corrector, which share their encoder."""
    if not _are_equal(corrector, discriminator, "electra"):
        raise UserError(
            f"The encoders of {discriminator.origin} and {corrector.origin} "
            "differ: name one of them."
        )
    return _joined(discriminator, corrector, corrector.arrays)


def merge(main: Weights, generator: Weights) -> Weights:
    """Joins a main network and a generator, as in pre-training."""
    if (
        GENERATOR_HEAD in main.architecture.heads
        or generator.architecture.heads != (GENERATOR_HEAD,)
    ):
        raise UserError(
            f"{main.origin} and {generator.origin} are not a discriminator "
            "and a generator, in this order."
        )
    for name in ("max_position_embeddings", "type_vocab_size"):
        sizes = [
            getattr(x.architecture.encoder, name) for x in (main, generator)
        ]
        if len({*sizes}) > 1:
            raise UserError(
                f"{main.origin} and {generator.origin} have {name}={sizes}."
            )
    sharing = "none"
    for kind, tables in _SHARED.items():
        if sharing == "none" and all(
            _are_equal(generator, main, table) for table in tables
        ):
            sharing = kind
    is_one = _are_equal(generator, main, "electra")
    config = generator.architecture.encoder
    if sharing == "none" and config.embedding_size != config.hidden_size:
        raise UserError(
            f"The embeddings of {main.origin} and {generator.origin} differ, "
            f"of {config.embedding_size} in a generator of width "
            f"{config.hidden_size}: convert one alone."
        )
    shared = ("electra",) if is_one else _SHARED.get(sharing, ())
    own = {
        "generator" + name.removeprefix("electra")
        if name.startswith("electra/")
        else name: array
        for name, array in generator.arrays.items()
        if not any(_is_in(name, scope) for scope in shared) and name != STEP
    }
    return _joined(
        main,
        generator,
        own,
        generator=None if is_one else config,
        sharing=sharing,
    )


def _joined(
    one: Weights,
    other: Weights,
    added: Arrays,
    **fields: BertConfig | str | None,
) -> Weights:
    """Returns a network with another's head, arrays and fields."""
    heads = {*one.architecture.heads, *other.architecture.heads}
    return dataclasses.replace(
        one,
        origin=f"{one.origin},{other.origin}",
        arrays={**one.arrays, **added},
        architecture=dataclasses.replace(
            one.architecture,
            heads=tuple(head for head in HEADS if head in heads),
            **fields,
        ),
    )


def _are_equal(one: Weights, other: Weights, scope: str) -> bool:
    """Returns whether all arrays of a scope are equal, bit for bit."""
    return all(
        np.array_equal(one.arrays.get(name), other.arrays.get(name))
        for name in one.arrays.keys() | other.arrays.keys()
        if _is_in(name, scope)
    )


def _is_in(name: str, scope: str) -> bool:
    """Returns whether a name is in a scope, or is a weight or its slot."""
    return name == scope or name.startswith(f"{scope}/")


def assign(model: keras.layers.Layer, arrays: Arrays) -> None:
    """Assigns every weight of a model."""
    for variable in model.weights:
        variable.assign(arrays[variable.path])


def with_slots(weights: Weights) -> Weights:
    """Adds missing training state: slots of 0, step 0."""
    arrays = dict(weights.arrays)
    for name in weights.architecture.shapes():
        for slot in SLOTS:
            zeros = np.zeros_like(arrays[name])
            arrays.setdefault(f"{name}/{slot}", zeros)
    arrays.setdefault(STEP, np.array(0, np.int64))
    return dataclasses.replace(weights, arrays=arrays)


def without_slots(weights: Weights) -> Weights:
    """Removes Adam's slots."""
    arrays = {n: a for n, a in weights.arrays.items() if not n.endswith(SLOTS)}
    return dataclasses.replace(weights, arrays=arrays)


class Resizing(NamedTuple):
    """Counts of the rows of a resized table."""

    kept: int
    new: int
    dropped: int

    def describe(self, table: str) -> str:
        """Returns a line with the counts of a table."""
        return (
            f"{table}: {self.kept:,} rows kept, {self.new:,} new, "
            f"{self.dropped:,} dropped."
        )


def resize_vocabulary(
    weights: Weights,
    size: int,
    vocabulary: Vocabulary | None = None,
    *,
    seed: int = 0,
) -> tuple[Weights, Resizing]:
    """Resizes the word embeddings to a number of rows, or to a vocabulary."""
    old = weights.architecture.encoder.vocab_size
    rows = _rows(weights.vocabulary, vocabulary, old, size)
    random = np.random.default_rng(seed)
    scale = weights.architecture.encoder.initializer_range
    arrays = dict(weights.arrays)
    for name, array in arrays.items():
        weight = _weight_of(name)
        if weight.removesuffix(DIFFERENCE).endswith(
            (WORD_EMBEDDINGS, "/output_bias")
        ):
            fill = array.mean(0) if weight == name else np.zeros_like(array[0])
            noise = 0.0
            if name.endswith(WORD_EMBEDDINGS):
                shape = (size, array.shape[1])
                noise = np.clip(random.normal(size=shape), -2, 2) * scale
            known = array[np.maximum(rows, 0)]
            is_known = (rows >= 0).reshape([-1] + [1] * (array.ndim - 1))
            arrays[name] = np.where(is_known, known, fill + noise).astype(
                array.dtype
            )
    kept_words = weights.vocabulary
    if vocabulary is None and kept_words and kept_words.size > size:
        if kept_words.sentencepiece:
            raise UserError(
                f"{kept_words.size} pieces exceed vocab_size={size}."
            )
        kept_words = dataclasses.replace(
            kept_words, tokens=kept_words.tokens[:size]
        )
    kept = int((rows >= 0).sum())
    resized = dataclasses.replace(
        weights,
        arrays=arrays,
        architecture=weights.architecture.with_fields(vocab_size=size),
        vocabulary=vocabulary or kept_words,
    )
    return resized, Resizing(kept, size - kept, old - kept)


def resize_positions(weights: Weights, size: int) -> tuple[Weights, Resizing]:
    """Resizes the position embeddings."""
    old = weights.architecture.encoder.max_position_embeddings
    arrays = dict(weights.arrays)
    for name, array in arrays.items():
        weight = _weight_of(name)
        if weight.removesuffix(DIFFERENCE).endswith(POSITION_EMBEDDINGS):
            arrays[name] = np.resize(array, (size, array.shape[1]))
            if weight != name:
                arrays[name][len(array) :] = 0
    longer = weights.architecture.with_fields(max_position_embeddings=size)
    resized = dataclasses.replace(weights, arrays=arrays, architecture=longer)
    kept = min(old, size)
    return resized, Resizing(kept, size - kept, old - kept)


def keep_layers(weights: Weights, count: int) -> Weights:
    """Keeps the lowest layers of an encoder, with their slots.

    Source: Sajjad et al., 2023, "On the Effect of Dropping Layers of
    Pre-trained Transformer Models", top-layer dropping.
    """
    old = weights.architecture.encoder.num_hidden_layers
    if count > old:
        raise UserError(f"{weights.origin} has {old} layers, not {count}.")
    dropped = tuple(f"electra/encoder/layer_{i}/" for i in range(count, old))
    arrays = {
        name: array
        for name, array in weights.arrays.items()
        if not name.startswith(dropped)
    }
    fewer = weights.architecture.with_fields(num_hidden_layers=count)
    return dataclasses.replace(weights, arrays=arrays, architecture=fewer)


def _weight_of(name: str) -> str:
    """Returns the weight that a slot belongs to; a weight's own name."""
    return name.removesuffix("/adam_m").removesuffix("/adam_v")


def _rows(
    before: Vocabulary | None, after: Vocabulary | None, old: int, size: int
) -> np.ndarray:
    """Returns int [size]: for each new row the index of the old one, or -1."""
    if after is not None and after.size > size:
        raise UserError(f"{after.size} tokens exceed vocab_size={size}.")
    rows = np.arange(size)
    if before is not None and after is not None:
        ids = [before.ids.get(token, -1) for token in after.tokens]
        rows[: after.size] = ids
        rows[after.size :] = -1
    rows[rows >= old] = -1
    return rows
