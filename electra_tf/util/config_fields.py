"""Fields of configurations: their choices, checks and help texts."""

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import os
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from electra_tf.util.errors import UserError, shorten_repr

Config = TypeVar("Config")

FILE_FLAGS = re.compile(
    r"(\w+_)?(dir|file|checkpoint|tfrecords)|corpus|dev|examples|generator|"
    r"input|model|output|templates|test|twin"
)
"""Names of the flags that name files or directories."""

_type_hints = functools.cache(typing.get_type_hints)

_HOME = re.compile(r"(^|,\s*)(~[^,]*)")

_RANGES: Mapping[str, Callable[[float], bool]] = {
    "positive": lambda x: 0 < x < math.inf,
    "in (0, 1)": lambda x: 0 < x < 1,
    "in (0, 1]": lambda x: 0 < x <= 1,
    "in [0, 1)": lambda x: 0 <= x < 1,
    "in [0, 1]": lambda x: 0 <= x <= 1,
}


class Leaf(NamedTuple):
    """One value of a configuration."""

    section: str
    field: dataclasses.Field
    type: Any
    help: str


def one_of(*choices: str) -> Any:  # noqa: ANN401 (as dataclasses.field)
    """Returns a field that must hold one of `choices`, by default the first."""
    return dataclasses.field(default=choices[0], metadata={"choices": choices})


def given_once() -> Any:  # noqa: ANN401 (as dataclasses.field)
    """Returns a field of several values, which a later flag replaces."""
    return dataclasses.field(default=(), metadata={"given_once": True})


def bounded(bounds: str, default: object = dataclasses.MISSING) -> Any:  # noqa: ANN401
    """Returns a field whose value must be within bounds, or None."""
    return dataclasses.field(default=default, metadata={"bounds": bounds})


def required(
    expected: str, default: object = "", *, choices: Iterable[str] = ()
) -> Any:  # noqa: ANN401 (as dataclasses.field)
    """Returns a field that must not be empty."""
    metadata = {"required": expected, "choices": tuple(choices)}
    return dataclasses.field(default=default, metadata=metadata)


class Checked:
    """A configuration that checks its fields when it is made."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            expected = field.metadata.get("required")
            if expected and not getattr(self, field.name):
                raise UserError(
                    f"`{field.name}` must {expected}. Received: nothing. Set "
                    f"--{field.name}."
                )
            if choices := field.metadata.get("choices"):
                expected = f"one of {', '.join(choices)}"
                require(self, field.name, expected, choices.__contains__)
            if bounds := field.metadata.get("bounds"):
                require(self, field.name, bounds, _range_check(bounds))


def _range_check(bounds: str) -> Callable[[float], bool]:
    """Returns a function that checks whether a number is within bounds."""
    if bounds.startswith("at least "):
        least = int(bounds.removeprefix("at least "))
        return lambda x: least <= x < math.inf
    return _RANGES[bounds]


def require(
    config: object, names: str, expected: str, is_met: Callable[[Any], bool]
) -> None:
    """Checks fields of a dataclass."""
    for name in names.split():
        value = getattr(config, name)
        try:
            is_right = value is None or is_met(value)
        except TypeError:  # a value of another type
            is_right = False
        if not is_right:
            raise UserError(
                f"`{name}` must be {expected}. Received: {name}={value!r}."
            )


def check_types(config_class: type, values: Mapping[str, Any]) -> None:
    """Checks the types of values from flags or from JSON."""
    for leaf in leaves(config_class):
        name = leaf.field.name
        if name in values and not _has_type(values[name], leaf.type):
            kind = getattr(leaf.type, "__name__", leaf.type)
            raise UserError(
                f"`{name}` must be of the type {kind}, numbers finite and "
                f"below 2^63. Received: {name}={shorten_repr(values[name])}."
            )


def _has_type(value: object, hint: object) -> bool:
    """Returns whether a JSON value is valid for a field of a type."""
    kinds = typing.get_args(hint)
    if isinstance(value, list | tuple):
        is_tuple = typing.get_origin(hint) is tuple
        return is_tuple and all(_has_type(item, kinds[0]) for item in value)
    if kinds and typing.get_origin(hint) is not tuple:
        return any(_has_type(value, kind) for kind in kinds)
    if hint is float and type(value) is int:
        hint = int
    is_number = type(value) in (int, float)
    return type(value) is hint and (not is_number or abs(value) < 2**63)


def check_words(words: Iterable[str], where: str) -> None:
    """Checks that words of a command line are text that a file can hold."""
    for word in words:
        if re.search("[\0\ud800-\udfff]", word):
            raise UserError(
                "A value must be UTF-8 text without NUL characters. Received "
                f"{where}: {shorten_repr(word)}."
            )


def leaves(config_class: type, section: str = "general") -> Iterator[Leaf]:
    """Yields the values of a configuration, including those of its parts."""
    hints = _type_hints(config_class)
    helps = _help_texts(config_class)
    for field in dataclasses.fields(config_class):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            yield from leaves(hint, field.name)
        else:
            yield Leaf(section, field, hint, helps.get(field.name, ""))


def build(config_class: type[Config], values: Mapping[str, Any]) -> Config:
    """Makes a configuration from name -> value; others get their defaults."""
    hints = _type_hints(config_class)
    arguments = {}
    for field in dataclasses.fields(config_class):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            arguments[field.name] = build(hint, values)
        elif field.name in values:
            value = values[field.name]
            is_list = isinstance(value, list)
            arguments[field.name] = tuple(value) if is_list else value
    return config_class(**arguments)


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Flattens nested dictionaries: only the innermost names remain."""
    flat = {}
    left = [iter(values.items())]
    while left:
        for name, value in left[-1]:
            if isinstance(value, dict):
                left.append(iter(value.items()))
                break
            flat[name] = value
        else:
            left.pop()
    return flat


def expand_homes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns flag -> value, with `~` replaced in flags that name files."""
    return {
        name: _expand_home(value) if FILE_FLAGS.fullmatch(name) else value
        for name, value in values.items()
    }


def _expand_home(value: object) -> object:
    if isinstance(value, list | tuple):
        return type(value)(map(_expand_home, value))
    if isinstance(value, str):
        return _HOME.sub(lambda x: x[1] + os.path.expanduser(x[2]), value)
    return value


@functools.cache  # reading the source takes longer than everything else
def _help_texts(config_class: type) -> Mapping[str, str]:
    """Returns field -> the string literal under it, on one line."""
    helps = {}
    for base in reversed(config_class.__mro__[:-1]):
        source = textwrap.dedent(inspect.getsource(base))
        for line, below in itertools.pairwise(ast.parse(source).body[0].body):
            if isinstance(line, ast.AnnAssign) and isinstance(below, ast.Expr):
                text = ast.literal_eval(below.value)
                helps[line.target.id] = " ".join(text.split())
    return helps
