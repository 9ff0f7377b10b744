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
import signal
import sys
import textwrap
import typing
import warnings
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

_DEFINE = {
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
    tuple: flags.DEFINE_list,
}
_type_hints = functools.cache(typing.get_type_hints)


class Leaf(NamedTuple):
    """One value of a configuration, and the part it belongs to."""

    section: str
    field: dataclasses.Field
    type: Any
    help: str


def _field(default: object, **metadata: object) -> Any:  # noqa: ANN401
    return dataclasses.field(default=default, metadata=metadata)


def one_of(*choices: str) -> Any:  # noqa: ANN401 (as dataclasses.field)
    """Returns a field that holds one of `choices`, by default the first."""
    return _field(choices[0], choices=choices)


def some_of(*choices: str) -> Any:  # noqa: ANN401
    """Returns a field of a tuple of `choices`, by default empty."""
    return _field((), choices=choices)


def bounded(default: object, low: float, high: float = math.inf) -> Any:  # noqa: ANN401
    """Returns a field of a number in [low, high], or None."""
    return _field(default, bounds=(low, high))


def several(*, is_required: bool = False) -> Any:  # noqa: ANN401
    """Returns a field of texts that add up if the flag is given repeatedly."""
    return _field((), adds=True, required=is_required)


def required(choices: Iterable[str] = ()) -> Any:  # noqa: ANN401
    return _field("", required=True, choices=(*choices,))


class Checked:
    """A configuration that checks its fields when it is made."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            if field.metadata.get("required") and not value:
                raise UserError(f"Set --{name}.")
            if choices := field.metadata.get("choices"):
                values = value if isinstance(value, tuple) else (value,)
                if others := [x for x in values if x not in choices]:
                    raise UserError(
                        f"{name}={others[0]!r} is not one of "
                        f"{', '.join(choices)}."
                    )
            if value is not None and "bounds" in field.metadata:
                low, high = field.metadata["bounds"]
                if not low <= value <= high:
                    raise UserError(
                        f"{name}={value} is not in [{low}, {high}]."
                    )


@dataclasses.dataclass
class _General:
    flagfile: str | None = None
    """A file of flags, one on a line; # starts a comment."""
    hparams: str | None = None
    """Values as a JSON dictionary or as a .json file of one."""
    traceback: bool = False
    """Show where an error was raised, not only its message."""


def leaves(config_class: type, section: str = "general") -> Iterator[Leaf]:
    """Yields the values of a configuration and of its parts."""
    hints, helps = _type_hints(config_class), _help_texts(config_class)
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
    """Flattens nested dictionaries to field -> value, under today's names."""
    flat = dict(_innermost(parts))
    # Of version 0.1: a switch for each behaviour, and two flags for a ramp.
    old = [x for x in flat if re.match("original_(?!behaviour)", x)]
    if switched_on := [x[len("original_") :] for x in old if flat.pop(x)]:
        flat["original_behaviour"] = switched_on
    for start in [x for x in flat if x.endswith("_start_step")]:
        name = start.removesuffix("_start_step")
        steps = [flat.pop(start), flat.pop(f"{name}_end_step", 0)]
        flat[f"{name}_steps"] = steps
    return flat


def _innermost(parts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in parts.items():
        if isinstance(value, dict):
            yield from _innermost(value)
        else:
            yield name, value


def run_command(
    main: Callable[[Config], None], config_class: type[Config]
) -> NoReturn:
    """Runs a command and ends the process with one of `ExitCode`."""
    gc.set_threshold(_COLLECTION_THRESHOLD)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.showwarning = lambda text, *_: console.warn(str(text))
    arguments = sys.argv[1:]
    try:
        with (
            console.flushed_output(),
            console.handled_by(signal.default_int_handler),
        ):
            if {"--help", "-h", "--helpfull"}.intersection(arguments):
                about = inspect.getdoc(inspect.getmodule(main)) or ""
                values = _define_flags(config_class)
                parts = map(values.module_help, values.flags_by_module_dict())
                sys.stdout.write("\n".join([about, *parts, ""]))
            else:
                main(parse_flags(config_class, arguments))
    except (Exception, KeyboardInterrupt) as error:
        sys.exit(console.report(error, full="--traceback" in arguments))
    sys.exit(0)


def parse_flags(config_class: type[Config], arguments: Iterable[str]) -> Config:
    """Makes the configuration that a command line asks for."""
    words = _words(arguments, config_class)
    parsed = _parse_words(words, config_class)
    if parsed.hparams:
        hparams = _hparams_flags(parsed.hparams, config_class)
        words = [*_words(hparams, config_class), *words]
        parsed = _parse_words(words, config_class)
    values = {}
    for leaf in leaves(config_class):
        flag = parsed[leaf.field.name]
        if not flag.present:
            continue
        value = flag.value
        if isinstance(value, list):
            kind, *_ = typing.get_args(leaf.type)
            value = tuple(kind(_expand_home(x)) for x in value if x)
        values[flag.name] = _expand_home(value)
    return build(config_class, values)


def _words(arguments: Iterable[str], config_class: type) -> list[str]:
    """Writes _ for - in flags, names the original's as here, and joins lists.

    A list that the command line gives in several flags is the last word, so
    that it replaces those of flagfiles.
    """
    originals = getattr(config_class, "ORIGINAL_FLAGS", {})
    all_leaves = leaves(config_class)
    adding = {x.field.name for x in all_leaves if "adds" in x.field.metadata}
    words, lists = [], {}
    for word in arguments:
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = name[2:].replace("-", "_")
            name = originals.get(name, name)
            word = f"--{name}{equals}{value}"
            if name in adding and equals:
                lists.setdefault(name, []).append(value)
                continue
        words.append(word)
    return words + [f"--{name}={','.join(x)}" for name, x in lists.items()]


def _parse_words(words: Iterable[str], config_class: type) -> flags.FlagValues:
    """Parses the words of a command line, --flagfile included."""
    values = _define_flags(config_class)
    try:
        _, *rest = values(["", *words])
    except flags.Error as error:
        raise UserError(str(error)) from error
    if rest:
        raise UserError(f"Not a flag: {' '.join(rest)}")
    return values


def _define_flags(config_class: type) -> flags.FlagValues:
    """Makes a flag for each value of a configuration, and general ones."""
    values = flags.FlagValues()
    values.set_gnu_getopt(True)
    for leaf in (*leaves(config_class), *leaves(_General)):
        kind = typing.get_origin(leaf.type)
        default, about = leaf.field.default, leaf.help
        if choices := leaf.field.metadata.get("choices"):
            about = f"<{'|'.join(choices)}>: {about}"
        if kind is tuple:
            default = [str(x) for x in default]
        else:
            kind, *_ = typing.get_args(leaf.type) or [leaf.type]
        _DEFINE[kind](
            leaf.field.name,
            None if default is dataclasses.MISSING else default,
            about,
            flag_values=values,
            module_name=leaf.section,
        )
    return values


def _expand_home(value: object) -> object:
    is_home = isinstance(value, str) and re.match("~(/|$)", value)
    return os.path.expanduser(value) if is_home else value


def _hparams_flags(text: str, config_class: type) -> Iterator[str]:
    is_file = text.endswith(".json")
    values = flatten(files.read_json(text) if is_file else json.loads(text))
    originals = getattr(config_class, "ORIGINAL_NAMES", {})
    translated = {k: v for k, v in values.items() if k not in originals}
    for name in filter(values.__contains__, originals):  # later ones win
        value = values[name]
        translated |= originals[name].get(value, {name: value})
    for name, value in translated.items():
        if value is not None:
            yield f"--{name}={_as_text(value)}"


def _as_text(value: object) -> str:
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
    now = json.loads(json.dumps(dataclasses.asdict(config)))
    free = {*free_fields}
    for part in getattr(config, "FREE_PARTS", ()):
        free |= now.pop(part).keys()
    now = flatten(now)
    # A field that did not exist yet had its default.
    stored = {x.field.name: x.field.default for x in leaves(type(config))}
    stored = json.loads(json.dumps(stored, default=str))
    stored |= flatten(files.read_json(path))
    different = [
        f"  {name}: {stored[name]!r} stored, {now[name]!r} now"
        for name in now
        if name not in free and stored[name] != now[name]
    ]
    if different:
        raise UserError(
            f"The run of {path} continues only with the same configuration:\n"
            + "\n".join(different)
        )


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
        path = epath.Path(directory) / INPUTS_FILE
        files.write_json(path, known | {**digests})
