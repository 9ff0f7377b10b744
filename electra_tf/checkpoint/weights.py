"""The weights of one or two networks as arrays, in any format."""

import dataclasses
from collections.abc import Mapping

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

NETWORKS = ("discriminator", "corrector", "generator")
ENCODER = "encoder"
WORD_EMBEDDINGS = "/embeddings/word_embeddings"
"""Name of the word embeddings, after the scope of their network."""

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
    arrays: Mapping[str, np.ndarray]
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
            f"The vocabulary of {weights.origin} must have at most {rows:,} "
            "tokens, the rows of its word embeddings. Received: "
            f"{vocabulary.size:,} tokens. Name the one it was trained with "
            "with --vocab_file."
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
            f"{weights.origin} must hold finite weights. Received: infinite "
            f"or NaN values in {listed(bad)}. Name an older checkpoint, or "
            "another copy."
        )


def select(weights: Weights, network: str) -> Weights:
    """Extracts a single network, with its slots."""
    if network not in (*weights.networks, ENCODER):
        towers = ""
        if weights.architecture.is_two_tower:
            towers = " A two-tower generator cannot be used alone."
        raise UserError(
            f"{weights.origin} must hold a {network}. Received: "
            f"{' and '.join(weights.networks)}.{towers}"
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
    """Adds the generator's tables to the discriminator's differences, if
    any."""
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
        raise UserError(
            "A corrector must be stored as a masked language model. Received: "
            f"{_described(network)}. Name it alone."
        )
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
            "A discriminator and a corrector must have the same encoder. "
            f"Received: {discriminator.origin} and {corrector.origin}, whose "
            "encoders differ. Name one of them."
        )
    return _joined(discriminator, corrector, corrector.arrays)


def merge(main: Weights, generator: Weights) -> Weights:
    """Joins a main network and a generator, as in pre-training."""
    _check_pair(main, generator)
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
            "A discriminator and a generator must have the same embeddings, "
            "or the generator's must be as wide as its hidden vectors. "
            f"Received: {main.origin} and {generator.origin}, whose "
            f"tables differ, with embedding_size={config.embedding_size} and "
            f"hidden_size={config.hidden_size} in the generator. Convert one "
            "of them alone with --network."
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


def _check_pair(main: Weights, generator: Weights) -> None:
    """Checks the heads of two networks, and that they read the same rows."""
    if (
        GENERATOR_HEAD in main.architecture.heads
        or generator.architecture.heads != (GENERATOR_HEAD,)
    ):
        raise UserError(
            "Two networks of one checkpoint must be a discriminator (or a "
            "corrector, or an encoder) and a generator, in this order. "
            f"Received: {_described(main)}, then {_described(generator)}. "
            "Change the order, or name one alone."
        )
    for name in ("max_position_embeddings", "type_vocab_size"):
        sizes = [
            getattr(x.architecture.encoder, name) for x in (main, generator)
        ]
        if len({*sizes}) > 1:
            raise UserError(
                f"A discriminator and a generator must have the same `{name}`. "
                f"Received: {sizes[0]} in {main.origin}, {sizes[1]} in "
                f"{generator.origin}. Name one alone; convert_checkpoint "
                "--max_position_embeddings changes the number of positions."
            )


def _joined(
    one: Weights,
    other: Weights,
    added: Mapping[str, np.ndarray],
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


def _described(network: Weights) -> str:
    """Returns a network's path and its heads, for messages."""
    heads = " and ".join(network.architecture.heads) or "no head"
    return f"{network.origin} with {heads}"


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
