"""The networks of a checkpoint, inferred from names and shapes of its weights.

A checkpoint needs no configuration: its shapes determine all sizes except the
number of attention heads, by default one for every 64 of the width.

Source: the original's model/modeling.py and run_pretraining.py (names).
"""

import dataclasses
import re
from collections.abc import Mapping

from electra_tf.checkpoint import names
from electra_tf.config.model import (
    DIFFERENCE,
    TABLES,
    BertConfig,
    CommonConfig,
    default_num_attention_heads,
)
from electra_tf.util.errors import UserError, shape_differences

STEP = "global_step"
SLOTS = ("adam_m", "adam_v")
DISCRIMINATOR_HEAD = "discriminator_predictions"
GENERATOR_HEAD = "generator_predictions"
CLOZE_HEAD = "cloze_predictions"
CORRECTOR_HEAD = "corrector_predictions"
HEADS = (DISCRIMINATOR_HEAD, GENERATOR_HEAD, CLOZE_HEAD, CORRECTOR_HEAD)
"""The pre-training heads."""
DETECTION_LAYERS = "discriminator_encoder"
"""Scope of the discriminator's own layers, which replace the encoder's top."""

EXTRAS = (
    DETECTION_LAYERS,
    "baseline_predictions",
    "contrast_predictions",
    "copy_predictions",
    "selection_predictions",
    "sentence_predictions",  # of version 0.1
)
"""Scopes of an objective's auxiliary weights, of no single network."""
COMMON_FIELDS = frozenset(f.name for f in dataclasses.fields(CommonConfig))
"""Settings that discriminator and generator have in common."""
WORDS, _, POSITIONS = (f"electra/embeddings/{table}" for table in TABLES)
SHARED = {
    "embeddings": ("electra/embeddings",),
    "token_and_position_embeddings": (WORDS, POSITIONS),
    "token_embeddings": (WORDS,),
    "none": (),
    "gradient_disentangled": (),
}
"""`generator_sharing` -> scopes that discriminator and generator share."""
Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]

_TASK = re.compile(r"task_specific/([^/]+)/(.+)/kernel")
_TOWERS = ("generator_ltr", "generator_rtl")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Architecture:
    encoder: BertConfig
    generator: BertConfig | None = None
    sharing: str = "embeddings"
    is_two_tower: bool = False
    heads: tuple[str, ...] = ()
    extras: Shapes = dataclasses.field(default_factory=dict)
    tasks: Mapping[str, Shapes] = dataclasses.field(default_factory=dict)

    @property
    def generator_sharing(self) -> str:
        """Weights that the generator shares; "all" if it has no own encoder."""
        return "all" if self.generator is None else self.sharing

    def with_fields(self, **values: float | str) -> "Architecture":
        """Returns a copy with other values of fields of all encoders."""
        encoder, generator = (
            x and dataclasses.replace(x, **values)
            for x in (self.encoder, self.generator)
        )
        return dataclasses.replace(self, encoder=encoder, generator=generator)

    def shapes(self) -> dict[str, Shape]:
        """Returns the shape of every weight by its name, without slots."""
        is_difference = self.generator_sharing == "gradient_disentangled"
        end = DIFFERENCE if is_difference else ""
        shapes = {
            f"electra/{name}{end if name.endswith(TABLES) else ''}": shape
            for name, shape in _encoder_shapes(self.encoder).items()
        }
        towers = _TOWERS if self.is_two_tower else ("generator",)
        for scope in towers if self.generator else ():
            for name, shape in _encoder_shapes(self.generator).items():
                if not is_in(f"electra/{name}", SHARED[self.sharing]):
                    shapes[f"{scope}/{name}"] = shape
        for head in self.heads:
            shapes |= self._head_shapes(head)
        for task, modules in self.tasks.items():
            for module, shape in modules.items():
                shapes |= names.module_shapes(
                    f"task_specific/{task}/{module}", shape
                )
        return shapes | self.extras

    def _head_shapes(self, head: str) -> dict[str, Shape]:
        width = self.encoder.hidden_size
        if head == DISCRIMINATOR_HEAD:
            return {
                **names.module_shapes(f"{head}/dense", (width, width)),
                **names.module_shapes(f"{head}/dense_1", (width, 1)),
            }
        is_generator = self.generator and head != CORRECTOR_HEAD
        reader = self.generator if is_generator else self.encoder
        width = reader.hidden_size * (2 if self.is_two_tower else 1)
        embedding = reader.embedding_size
        return {
            **names.module_shapes(f"{head}/dense", (width, embedding)),
            **names.module_shapes(f"{head}/LayerNorm", (embedding,)),
            f"{head}/output_bias": (reader.vocab_size,),
        }


def is_in(name: str, scopes: tuple[str, ...]) -> bool:
    """Returns whether a name is one of the scopes or inside one."""
    return any(f"{name}/".startswith(f"{scope}/") for scope in scopes)


def infer(
    shapes: Shapes,
    *,
    num_attention_heads: int | None = None,
    generator_num_attention_heads: int | None = None,
) -> Architecture:
    """Infers the networks from names and shapes; every name must be used."""
    weights = {
        name: tuple(shape)
        for name, shape in shapes.items()
        if name != STEP and not name.endswith(SLOTS)
    }
    scopes = {name.partition("/")[0] for name in weights}
    is_two_tower = not scopes.isdisjoint(_TOWERS)
    generator, encoder = None, _encoder("electra", weights, num_attention_heads)
    sharing = "embeddings"
    if is_two_tower or "generator" in scopes:
        scope = _TOWERS[0] if is_two_tower else "generator"
        own = [name for name in weights if name.startswith(f"{scope}/")]
        heads = generator_num_attention_heads
        generator = _encoder(scope, weights, heads, tables=encoder)
        sharing = next(
            kind
            for kind, shared in SHARED.items()
            if not any(is_in(x.replace(scope, "electra"), shared) for x in own)
        )
    if f"{WORDS}{DIFFERENCE}" in weights:
        sharing = "gradient_disentangled"
    tasks: dict[str, dict[str, Shape]] = {}
    for name, shape in weights.items():
        if match := _TASK.fullmatch(name):
            tasks.setdefault(match[1], {})[match[2]] = shape
    architecture = Architecture(
        encoder=encoder,
        generator=generator,
        sharing=sharing,
        is_two_tower=is_two_tower,
        heads=tuple(head for head in HEADS if head in scopes),
        extras={name: x for name, x in weights.items() if is_in(name, EXTRAS)},
        tasks=tasks,
    )
    expected = architecture.shapes()
    slotted = tuple({x.partition("/")[0] for x in shapes if x.endswith(SLOTS)})
    expected |= {
        f"{name}/{slot}": shape
        for name, shape in expected.items()
        if is_in(name, slotted)
        for slot in SLOTS
    }
    stored = {name: x for name, x in shapes.items() if name != STEP}
    if text := shape_differences(expected, stored):
        raise UserError(
            f"The variables are not exactly those of ELECTRA's networks:{text}"
        )
    return architecture


def size_flags(architecture: Architecture) -> dict[str, int | str]:
    """Returns the flags of run_pretraining that make these networks."""
    flags = encoder_flags(architecture.encoder, architecture.generator)
    if architecture.generator is not None or len(architecture.heads) > 1:
        flags["generator_sharing"] = architecture.generator_sharing
    elif architecture.heads == (GENERATOR_HEAD,):
        flags["objective"] = "mlm"
    if architecture.is_two_tower:
        flags["generator_type"] = "two_tower"
    return flags


def encoder_flags(
    encoder: BertConfig, generator: BertConfig | None
) -> dict[str, float]:
    """Returns the flags of run_pretraining for encoders of these sizes."""
    flags = {
        name: value
        for name, value in dataclasses.asdict(encoder).items()
        if name not in {*COMMON_FIELDS, "vocab_size", "type_vocab_size"}
    }
    if generator is None:
        return flags
    return flags | {
        "generator_hidden_size": generator.hidden_size / encoder.hidden_size,
        "generator_layers": (
            generator.num_hidden_layers / encoder.num_hidden_layers
        ),
        "generator_num_attention_heads": generator.num_attention_heads,
    }


def _encoder(
    scope: str,
    shapes: Shapes,
    num_attention_heads: int | None,
    tables: BertConfig | None = None,
) -> BertConfig:
    def size(name: str) -> Shape:
        shape = shapes.get(f"{scope}/{name}", ())
        if len(shape) != 2:
            raise UserError(f"No matrix {scope}/{name} in the checkpoint.")
        return shape

    hidden, intermediate = size("encoder/layer_0/intermediate/dense/kernel")
    if num_attention_heads is None:
        num_attention_heads = default_num_attention_heads(hidden)
    prefix = f"{scope}/encoder/layer_"
    layers = {x.split("/")[2] for x in shapes if x.startswith(prefix)}
    common = {
        "hidden_size": hidden,
        "num_hidden_layers": len(layers),
        "intermediate_size": intermediate,
        "num_attention_heads": num_attention_heads,
    }
    words, types, positions = (f"embeddings/{table}" for table in TABLES)
    if tables is not None and f"{scope}/{words}" not in shapes:
        return dataclasses.replace(tables, **common)
    end = DIFFERENCE if f"{scope}/{words}{DIFFERENCE}" in shapes else ""
    vocab_size, embedding_size = size(words + end)
    return BertConfig(
        vocab_size=vocab_size,
        embedding_size=embedding_size,
        max_position_embeddings=size(positions + end)[0],
        type_vocab_size=size(types + end)[0],
        **common,
    )


def _encoder_shapes(config: BertConfig) -> dict[str, Shape]:
    widths = {
        "E": config.embedding_size,
        "H": config.hidden_size,
        "I": config.intermediate_size,
    }
    rows = (
        config.vocab_size,
        config.type_vocab_size,
        config.max_position_embeddings,
    )
    shapes = {
        f"embeddings/{table}": (num_rows, config.embedding_size)
        for table, num_rows in zip(TABLES, rows, strict=True)
    }
    modules = [names.EMBEDDINGS_NORM]
    if config.embedding_size != config.hidden_size:
        modules.append(names.EMBEDDINGS_PROJECT)
    for i in range(config.num_hidden_layers):
        modules += [(m.format(i=i), sizes) for m, sizes in names.LAYER]
    for module, sizes in modules:
        shapes |= names.module_shapes(module, [widths[size] for size in sizes])
    return shapes
