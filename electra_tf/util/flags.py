"""Frozen dataclasses as command lines and as JSON files.

A configuration is a frozen dataclass of values and of further such dataclasses,
its parts. Each value is an absl flag with the field's name and default; the
string literal under the field is the help. The later of two values wins: the
default, --hparams, then flags and the lines of flagfiles in their order.

Class attributes of a configuration:
  FREE_PARTS: names of the parts that may change when a run is resumed.
  ORIGINAL_NAMES: the original's hyperparameters in --hparams that have no field
    of their name: name -> its value -> field -> value.
  ORIGINAL_FLAGS: name of a flag of the original -> its name here.
"""

import ast
import dataclasses
import functools
import gc
import inspect
import itertools
import json
import math
import os
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

from absl import flags
from etils import epath

from electra_tf.util import console, files
from electra_tf.util.errors import UserError

Config = TypeVar("Config")

CONFIG_FILE = "config.json"
"""Name of the file with the configuration of a run or trial."""
INPUTS_FILE = "inputs.json"
"""Name of the file with the digests of its vocabulary, weights and data."""
# Tracing makes millions of objects that stay; with Python's threshold a tenth
# of its time is spent on collecting garbage.
_COLLECTION_THRESHOLD = 50_000

_type_hints = functools.cache(typing.get_type_hints)


class Leaf(NamedTuple):
    """One value of a configuration, and the part it belongs to."""

    section: str
    field: dataclasses.Field
    type: Any
    help: str


def one_of(*choices: str) -> Any:  # noqa: ANN401 (as dataclasses.field)
    """Returns a field that holds one of `choices`, by default the first."""
    return dataclasses.field(default=choices[0], metadata={"choices": choices})


def bounded(default: object, low: float, high: float = math.inf) -> Any:  # noqa: ANN401
    """Returns a field of a number in [low, high], or None."""
    metadata = {"bounds": (low, high)}
    return dataclasses.field(default=default, metadata=metadata)


def several(*, is_required: bool = False) -> Any:  # noqa: ANN401
    """Returns a field of texts that add up if the flag is given repeatedly."""
    metadata = {"adds": True, "required": is_required}
    return dataclasses.field(default=(), metadata=metadata)


def required(default: object = "", choices: Iterable[str] = ()) -> Any:  # noqa: ANN401
    """Returns a field that must be set."""
    metadata = {"required": True, "choices": (*choices,)}
    return dataclasses.field(default=default, metadata=metadata)


class Checked:
    """A configuration that checks its fields when it is made."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            choices = field.metadata.get("choices")
            low, high = field.metadata.get("bounds", (-math.inf, math.inf))
            if field.metadata.get("required") and not value:
                raise UserError(f"Set --{name}.")
            if choices and value not in choices:
                raise UserError(
                    f"{name}={value!r} is not one of {', '.join(choices)}."
                )
            if (low, high) != (-math.inf, math.inf) and value is not None:
                if not low <= value <= high:
                    raise UserError(
                        f"{name}={value} is not in [{low}, {high}]."
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


def build(config_class: type[Config], values: Mapping[str, Any]) -> Config:
    """Makes a configuration from name -> value; others get their defaults."""
    arguments = {}
    for field in dataclasses.fields(config_class):
        hint = _type_hints(config_class)[field.name]
        if dataclasses.is_dataclass(hint):
            arguments[field.name] = build(hint, values)
        elif field.name in values:
            value = values[field.name]
            is_list = isinstance(value, list)
            arguments[field.name] = tuple(value) if is_list else value
    return config_class(**arguments)


def flatten(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Flattens nested dictionaries: only the innermost names remain."""
    flat = {}
    for name, value in parts.items():
        flat |= flatten(value) if isinstance(value, dict) else {name: value}
    return flat


def run_command(
    main: Callable[[Config], None], config_class: type[Config]
) -> NoReturn:
    """Runs a command and ends the process with one of `ExitCode`."""
    gc.set_threshold(_COLLECTION_THRESHOLD)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    arguments = sys.argv[1:]
    try:
        with console.flushed_output():
            if {"--help", "-h", "--helpfull"}.intersection(arguments):
                sys.stdout.write(_help(main, config_class))
            else:
                main(parse_flags(config_class, arguments))
    except (Exception, KeyboardInterrupt) as error:
        sys.exit(console.report(error, full="--traceback" in arguments))
    sys.exit(0)


def _help(main: Callable, config_class: type) -> str:
    """Returns the description of a command and its flags."""
    about = inspect.getdoc(inspect.getmodule(main)) or ""
    values = _define_flags(config_class)
    parts = map(values.module_help, values.flags_by_module_dict())
    return "\n".join([about, *parts, ""])


def parse_flags(
    config_class: type[Config], arguments: Collection[str]
) -> Config:
    """Makes the configuration that a command line asks for."""
    arguments = _joined(arguments, config_class)
    values = _parse_words(config_class, arguments)
    if hparams := values["hparams"].value:
        first = _hparams_flags(hparams, config_class)
        values = _parse_words(config_class, [*first, *arguments])
    return build(
        config_class,
        {
            leaf.field.name: _expand_home(values[leaf.field.name].value)
            for leaf in leaves(config_class)
            if values[leaf.field.name].present
        },
    )


def _parse_words(
    config_class: type, arguments: Iterable[str]
) -> flags.FlagValues:
    """Parses words of a command line, --flagfile included."""
    values = _define_flags(config_class)
    try:
        _, *rest = values(["", *arguments])
    except flags.Error as error:
        raise UserError(str(error)) from error
    if rest:
        raise UserError(f"Not a flag: {' '.join(rest)}")
    return values


def _normalized(word: str, config_class: type) -> str:
    """Returns a flag under its name here: with _, not - or the original's."""
    match = re.match(r"--([A-Za-z][\w-]*)", word)
    if not match:
        return word
    name = match[1].replace("-", "_")
    name = getattr(config_class, "ORIGINAL_FLAGS", {}).get(name, name)
    return f"--{name}{word[match.end() :]}"


def _joined(arguments: Iterable[str], config_class: type) -> list[str]:
    """Joins the values of each flag that adds up, and normalizes names."""
    all_leaves = leaves(config_class)
    adding = {x.field.name for x in all_leaves if "adds" in x.field.metadata}
    rest, values = [], {}
    for word in arguments:
        word = _normalized(word, config_class)
        name, equals, value = word.removeprefix("--").partition("=")
        if name in adding and equals:
            values.setdefault(name, []).append(value)
        else:
            rest.append(word)
    return rest + [f"--{name}={','.join(x)}" for name, x in values.items()]


def _define_flags(config_class: type) -> flags.FlagValues:
    """Makes a flag for each value, --flagfile, --hparams and --traceback."""
    values = flags.FlagValues()
    values.set_gnu_getopt(True)
    for leaf in leaves(config_class):
        flags.DEFINE_flag(_make_flag(leaf), values, module_name=leaf.section)
    for name, about in (
        ("flagfile", "A file of flags, one on a line; # starts a comment."),
        ("hparams", "Values as a JSON dictionary or as a .json file of one."),
    ):
        flags.DEFINE_string(name, None, about, values, module_name="general")
    about = "Show where an error was raised, not only its message."
    flags.DEFINE_boolean(
        "traceback", False, about, values, module_name="general"
    )
    return values


def _make_flag(leaf: Leaf) -> flags.Flag:
    name, default = leaf.field.name, leaf.field.default
    if default is dataclasses.MISSING:
        default = None
    if leaf.type is bool:
        return flags.BooleanFlag(name, default, leaf.help)
    if choices := leaf.field.metadata.get("choices"):
        default = default if default in choices else None  # required
        return flags.EnumFlag(name, default, leaf.help, choices)
    kind, *_ = typing.get_args(leaf.type) or [leaf.type]
    parser = {
        int: flags.IntegerParser(),
        float: flags.FloatParser(),
        str: flags.ArgumentParser(),
    }[kind]
    serializer = flags.ArgumentSerializer()
    if typing.get_origin(leaf.type) is tuple:
        parser, serializer = _TupleParser(kind), flags.ListSerializer(",")
    return flags.Flag(parser, serializer, name, default, leaf.help)


class _TupleParser(flags.ArgumentParser):
    """Parses values separated by commas."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def parse(self, argument: str | tuple) -> tuple:
        if isinstance(argument, tuple):  # a default
            return argument
        items = (item.strip() for item in argument.split(","))
        return tuple(self.kind(item) for item in items if item)


def _expand_home(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_expand_home, value))
    is_home = isinstance(value, str) and re.match("~(/|$)", value)
    return os.path.expanduser(value) if is_home else value


def _hparams_flags(text: str, config_class: type) -> Iterator[str]:
    """Yields the flags that --hparams sets."""
    is_file = text.endswith(".json")
    values = flatten(files.read_json(text) if is_file else json.loads(text))
    originals = getattr(config_class, "ORIGINAL_NAMES", {})
    translated = {k: v for k, v in values.items() if k not in originals}
    for name in filter(values.__contains__, originals):  # later ones win
        value = values[name]
        translated |= originals[name].get(value, {name: value})
    for name, value in translated.items():
        if value is not None:
            yield _normalized(f"--{name}={_as_text(value)}", config_class)


def _as_text(value: object) -> str:
    """Formats a JSON value for a command line."""
    if isinstance(value, list):
        return ",".join(map(_as_text, value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1e6 steps
    return value if isinstance(value, str) else json.dumps(value)


def save_config(path: files.StrPath, config: object) -> None:
    """Writes a configuration as JSON: part -> field -> value."""
    files.write_json(path, dataclasses.asdict(config))


def load_config(path: files.StrPath, config_class: type[Config]) -> Config:
    """Reads what `save_config` wrote, this version's or an earlier one's."""
    return build(config_class, flatten(files.read_json(path)))


def check_same_experiment(
    path: files.StrPath, config: object, *, free_fields: Collection[str] = ()
) -> None:
    """Compares a configuration with the stored one of the run it continues."""
    free = {*free_fields}
    now = json.loads(json.dumps(dataclasses.asdict(config)))
    for part in getattr(config, "FREE_PARTS", ()):
        free |= now.pop(part).keys()
    stored, now = flatten(files.read_json(path)), flatten(now)
    # A field that did not exist yet had its default.
    for leaf in leaves(type(config)):
        stored.setdefault(leaf.field.name, leaf.field.default)
    different = [
        f"  {name}: {stored[name]!r} stored, {now[name]!r} now"
        for name in now
        if name not in free and _untupled(stored[name]) != now[name]
    ]
    if different:
        raise UserError(
            f"The run of {path} continues only with the same configuration:\n"
            + "\n".join(different)
        )


def _untupled(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def stored_inputs(directory: files.StrPath) -> dict[str, str]:
    """Returns name -> SHA-256 of what a run or trial began with."""
    path = epath.Path(directory) / INPUTS_FILE
    return files.read_json(path) if path.exists() else {}


def check_same_inputs(
    directory: files.StrPath, digests: Mapping[str, str], *, write: bool
) -> None:
    """Compares digests with the stored ones, and stores new ones."""
    known = stored_inputs(directory)
    changed = [x for x in known.keys() & digests if known[x] != digests[x]]
    if changed:
        raise UserError(
            f"{directory} began with another {', '.join(sorted(changed))}."
        )
    if write and digests.keys() - known.keys():
        files.write_json(
            epath.Path(directory) / INPUTS_FILE, known | {**digests}
        )
