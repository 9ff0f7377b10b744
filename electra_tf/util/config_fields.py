"""What configurations are made of: fields, their checks, their meanings."""

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from electra_tf.util.errors import UserError

Config = TypeVar("Config")


class Leaf(NamedTuple):
    """One value of a configuration.

    Attributes:
      section: name of the part that the value lies in.
      field: the field that holds it.
      type: its type.
      help: what it means.
    """

    section: str
    field: dataclasses.Field
    type: Any
    help: str


def one_of(*choices: str) -> Any:  # noqa: ANN401 (as dataclasses.field)
    """Returns a field that must hold one of `choices`, by default the first."""
    return dataclasses.field(default=choices[0], metadata={"choices": choices})


def given_once() -> Any:  # noqa: ANN401 (as dataclasses.field)
    """Returns a field of several values, of which a later flag gives all."""
    return dataclasses.field(default=(), metadata={"given_once": True})


def require_choices(config: Any) -> None:  # noqa: ANN401 (any dataclass)
    """Checks the fields of a dataclass that `one_of` made.

    Raises:
      UserError: naming the first that holds none of its choices.
    """
    for field in dataclasses.fields(config):
        if choices := field.metadata.get("choices"):
            expected = f"one of {', '.join(choices)}"
            require(config, field.name, expected, choices.__contains__)


def require(
    config: Any,  # noqa: ANN401 (any dataclass)
    names: str,
    expected: str,
    is_met: Callable[[Any], bool],
) -> None:
    """Checks fields of a dataclass.

    Args:
      config: the dataclass.
      names: the fields, separated by spaces; those that are None are passed
        over.
      expected: completes "`name` must be ...".
      is_met: value -> whether it is so.

    Raises:
      UserError: naming the first field for which it is not.
    """
    for name in names.split():
        value = getattr(config, name)
        if value is not None and not is_met(value):
            raise UserError(
                f"`{name}` must be {expected}. Received: {name}={value!r}."
            )


def require_directory_name(
    config: Any,  # noqa: ANN401 (any dataclass)
    name: str,
    parent: str,
) -> None:
    """Checks a field that names a directory, so that none goes elsewhere.

    Args:
      config: the dataclass.
      name: of the field.
      parent: the directory that must hold the one it names.

    Raises:
      UserError: if it is a path, or nothing.
    """
    value = getattr(config, name)
    if value in ("", ".", "..") or "/" in value:
        raise UserError(
            f"`{name}` must be the name of a directory inside {parent}. "
            f"Received: {name}={value!r}. Set --{name}, for example to "
            "electra_small."
        )


def leaves(config_class: type, section: str = "general") -> Iterator[Leaf]:
    """Yields the values of a configuration, those of parts included."""
    hints, helps = typing.get_type_hints(config_class), _helps(config_class)
    for field in dataclasses.fields(config_class):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            yield from leaves(hint, field.name)
        else:
            yield Leaf(section, field, hint, helps.get(field.name, ""))


def build(config_class: type[Config], values: Mapping[str, Any]) -> Config:
    """Makes a configuration from name -> value; the rest are defaults."""
    hints = typing.get_type_hints(config_class)
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
    """Puts the entries of nested dictionaries in the place of their names."""
    flat = {}
    for name, value in values.items():
        flat |= flatten(value) if isinstance(value, dict) else {name: value}
    return flat


def _helps(config_class: type) -> dict[str, str]:
    """Returns field -> the string literal under it, on one line."""
    helps = {}
    for base in reversed(config_class.__mro__[:-1]):
        source = textwrap.dedent(inspect.getsource(base))
        for line, below in itertools.pairwise(ast.parse(source).body[0].body):
            if isinstance(line, ast.AnnAssign) and isinstance(below, ast.Expr):
                text = ast.literal_eval(below.value)
                helps[line.target.id] = " ".join(text.split())
    return helps
