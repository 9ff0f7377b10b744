"""Frozen dataclasses as command lines.

A configuration is a dataclass whose fields are values or further such
dataclasses, its parts. Each value is one absl flag: its name is the field's,
its help the string literal under the field. A value is a bool, int, float or
str, an `int | None` or `str | None`, or a `tuple` of int, float or str
(comma-separated). A `tuple[str, ...]` flag that is repeated on the same command
line or in the same flagfile appends its values, unless it is `given_once`.

Where a flag names files (`FILE_FLAGS`: by its name), a `~` at the beginning or
after a comma is the home directory.

The later of two values wins: the default, --hparams, then flags and the lines
of flagfiles in the order in which they are given.

Class attributes of a configuration that this module reads:
  ORIGINAL_NAMES: translates the original's hyperparameters in --hparams: name
    -> its value -> our names and values. Values that are not listed are kept;
    where two entries set the same name, the later one wins.
  ORIGINAL_FLAGS: name of a flag of the original -> its name here.
"""

import difflib
import gc
import inspect
import itertools
import json
import os
import pathlib
import re
import sys
import typing
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from typing import Any, NamedTuple, NoReturn

from absl import flags

from electra_tf.util import console, files
from electra_tf.util.config_fields import (
    Config,
    Leaf,
    build,
    check_types,
    check_words,
    expand_homes,
    flatten,
    leaves,
)
from electra_tf.util.errors import ExitCode, UserError, shorten_repr

_HELP = {"-h", "--help", "--helpfull", "--helpshort"}
_FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w-]*)(?P<value>=.*)?", re.DOTALL)
# Objects allocated between two garbage collections. Tracing makes millions that
# stay; with Python's default threshold a tenth of its time is spent collecting.
_COLLECTION_THRESHOLD = 50_000


class _Word(NamedTuple):
    """One word of a command line."""

    text: str
    where: str
    source: str


_NO_WORD = _Word("", "", "")
_KINDS = {
    bool: "true or false",
    int: "a whole number",
    int | None: "a whole number",
    float: "a number",
    float | None: "a number",
    tuple[int, ...]: "whole numbers with commas",
    tuple[float, ...]: "numbers with commas",
}


def run(main: Callable[[Config], None], config_class: type[Config]) -> NoReturn:
    """Runs a command and ends the process with one of `ExitCode`."""
    arguments = sys.argv[1:]
    gc.set_threshold(_COLLECTION_THRESHOLD)
    try:
        with console.flushed_output():
            if _HELP.intersection(arguments):
                sys.stdout.write(help_text(main, config_class))
            else:
                main(parse(config_class, arguments))
        code = ExitCode.DONE
    except (Exception, KeyboardInterrupt) as error:
        code = console.report(error)
    sys.exit(code)


def parse(config_class: type[Config], arguments: Sequence[str]) -> Config:
    """Makes the configuration that a command line asks for."""
    values = _define_flags(config_class)
    all_flags = (values[name] for name in values)
    repeatable = [x for x in all_flags if isinstance(x, _RepeatableFlag)]
    here = "on the command line"
    words = [_Word(text, here, here) for text in arguments]
    words = list(_expand(words, values, config_class))
    # A stable sort: the weakest source first.
    words.sort(key=lambda word: word.where != "in --hparams")
    for place, group in itertools.groupby(words, lambda word: word[1:]):
        where, source = place
        for flag in repeatable:
            flag.source = source
        _parse_words(values, [word.text for word in group], where)
    given = {n: values[n].value for n in values if values[n].present}
    check_types(config_class, given)
    return build(config_class, expand_homes(given))


def help_text(main: Callable, config_class: type) -> str:
    """Returns the description of a command and its flags."""
    about = inspect.getdoc(inspect.getmodule(main)) or ""
    values = _define_flags(config_class)
    parts = map(values.module_help, values.flags_by_module_dict())
    return "\n".join([about, *parts, ""])


def _define_flags(config_class: type) -> flags.FlagValues:
    """Makes one flag for each value, and --flagfile and --hparams."""
    values = flags.FlagValues()
    values.set_gnu_getopt(True)
    for leaf in leaves(config_class):
        flag = _make_flag(leaf)
        if leaf.type in _KINDS:
            flag.parser = _NamingParser(flag.name, leaf.type, flag.parser)
        flags.DEFINE_flag(flag, values, module_name=leaf.section)
    for name, about in (
        ("flagfile", "A file of flags, one on a line; # starts a comment."),
        ("hparams", "Values as a JSON dictionary or as a .json file of one."),
    ):
        flags.DEFINE_string(name, None, about, values, module_name="general")
    return values


def _make_flag(leaf: Leaf) -> flags.Flag:
    name, default = leaf.field.name, leaf.field.default
    if leaf.type is bool:
        return flags.BooleanFlag(name, default, leaf.help)
    if choices := leaf.field.metadata.get("choices"):
        default = default if default in choices else None  # required
        return flags.EnumFlag(name, default, leaf.help, choices)
    kind, *_ = typing.get_args(leaf.type) or [leaf.type]
    if typing.get_origin(leaf.type) is tuple:
        adds = kind is str and not leaf.field.metadata.get("given_once")
        flag_class = _RepeatableFlag if adds else flags.Flag
        parser, serializer = _TupleParser(kind), flags.ListSerializer(",")
        return flag_class(parser, serializer, name, default, leaf.help)
    parser = {
        int: flags.IntegerParser(),
        float: flags.FloatParser(),
        str: flags.ArgumentParser(),
    }[kind]
    serializer = flags.ArgumentSerializer()
    return flags.Flag(parser, serializer, name, default, leaf.help)


class _FlagValueError(Exception):
    """A value is not of the type of its flag; (flag, type, value)."""

    def explain(self, where: str) -> str:
        """Says what the value must be, what and where it is, the way out."""
        name, kind, value = self.args
        way_out = "See --help."
        if kind is bool:
            way_out = f"Set --{name} or --no{name}."
        elif re.fullmatch(r"-?\d{1,9}(\.0*)?(e\d)?", value):  # 1e3
            way_out = f"Set --{name}={int(float(value))}."
        return (
            f"`{name}` must be {_KINDS[kind]}. Received: --{name}="
            f"{value[:40]} ({where}). {way_out}"
        )


class _NamingParser(flags.ArgumentParser):
    """Parses as another parser, with an error that names the flag."""

    def __init__(
        self, name: str, kind: type, parser: flags.ArgumentParser
    ) -> None:
        self.name, self.kind, self.parser = name, kind, parser
        self.syntactic_help = parser.syntactic_help

    def parse(self, argument: Any) -> Any:  # noqa: ANN401 (as its parser)
        try:
            return self.parser.parse(argument)
        except (TypeError, ValueError) as error:
            raise _FlagValueError(self.name, self.kind, argument) from error


class _TupleParser(flags.ArgumentParser):
    """Parses values separated by commas."""

    def __init__(self, item: type) -> None:
        self.item = item

    def parse(self, argument: str | tuple) -> tuple:
        if isinstance(argument, tuple):  # a default
            return argument
        items = (item.strip() for item in argument.split(","))
        return tuple(self.item(item) for item in items if item)


class _RepeatableFlag(flags.Flag):
    """A flag that appends its values when it is repeated in the same source."""

    source = ""
    _source_of_value = ""

    def parse(self, argument: str) -> None:
        is_next = self.present and self.source == self._source_of_value
        before = self.value if is_next else ()
        super().parse(argument)
        self.value = before + self.value
        self._source_of_value = self.source


def _expand(
    words: Iterable[_Word], values: flags.FlagValues, config_class: type
) -> Iterator[_Word]:
    """Yields words, replacing each flagfile and --hparams by its flags."""
    names = getattr(config_class, "ORIGINAL_FLAGS", {})
    words = iter(words)
    for word in words:
        match = _FLAG.fullmatch(word.text)
        if not match:
            yield word
            continue
        name, value = match["name"].replace("-", "_"), match["value"]
        if name not in ("flagfile", "hparams"):
            name = names.get(name, name)
            yield word._replace(text=f"--{name}{value or ''}")
            if value is None and name in values and not values[name].boolean:
                yield from itertools.islice(words, 1)
            continue
        value = next(words, _NO_WORD).text if value is None else value[1:]
        value = os.path.expanduser(value)
        if name == "flagfile":
            yield from _expand(_flagfile_words(value), values, config_class)
        else:
            yield from _hparams_words(value, config_class)


def _flagfile_words(path: str) -> Iterator[_Word]:
    """Yields the flags in a flagfile; refuses lines that cannot be read."""
    try:
        text = pathlib.Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            "--flagfile must name a UTF-8 text file. Received: "
            f"{path!r} ({error})"
        ) from error
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line and not line.startswith(("#", "//")):
            where = f"in {path}, line {number}"
            if advice := problem_of_line(line):
                raise UserError(f"{advice} Received {where}: {line!r}.")
            yield _Word(line, where, path)


def problem_of_line(line: str) -> str | None:
    """Returns what is wrong with a line of a flagfile."""
    if line.startswith("\ufeff"):
        return "A flagfile must have no byte-order mark."
    match = _FLAG.fullmatch(line)
    if not match:
        return "A line of a flagfile must be --name=value."
    value = (match["value"] or "=")[1:]
    if re.search(r"\s#", value):
        return "A comment in a flagfile must stand on a line of its own."
    if re.fullmatch(r"(['\"]).*\1", value):
        return "A value in a flagfile must stand without quotation marks."
    if match["name"] == "flagfile":
        return "A flagfile must not name another: give --flagfile twice."
    return None


def _hparams_words(text: str, config_class: type) -> Iterator[_Word]:
    """Yields the flags that --hparams sets."""
    originals = getattr(config_class, "ORIGINAL_NAMES", {})
    names = getattr(config_class, "ORIGINAL_FLAGS", {})
    try:
        is_file = text.endswith(".json")
        hparams = files.read_json(text) if is_file else files.parse_json(text)
        if not isinstance(hparams, dict):
            raise ValueError("no dictionary")
        hparams = flatten(hparams)
        if not all(map(_is_plain, hparams.values())):
            raise ValueError("a list inside a list")
    except ValueError as error:
        raise UserError(
            "--hparams must be a JSON dictionary or a .json file of one. "
            f"Received: {shorten_repr(text)} ({error})"
        ) from error
    translated = {k: v for k, v in hparams.items() if k not in originals}
    for name in originals:
        if name in hparams:
            value, known = hparams[name], originals[name]
            is_known = not isinstance(value, list) and value in known
            translated |= known[value] if is_known else {name: value}
    for name, value in translated.items():
        if value is not None:
            here = "in --hparams"
            name = names.get(name, name)
            yield _Word(f"--{name}={_as_text(value)}", here, here)


def _is_plain(value: object) -> bool:
    """Returns whether a value has no list or dictionary inside a list."""
    items = value if isinstance(value, list) else ()
    return not any(isinstance(item, list | dict) for item in items)


def _as_text(value: object) -> str:
    """Formats a JSON value for a command line."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ",".join(map(_as_text, value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # 1e6 steps
    return json.dumps(value)


def _parse_words(
    values: flags.FlagValues, words: list[str], where: str
) -> None:
    """Parses the words of one place."""
    check_words(words, where)
    try:
        _, *positional = values(["", *words])
    except flags.UnrecognizedFlagError as error:
        name = error.flagname
        near = difflib.get_close_matches(name, list(values), 1)
        hint = f"Did you mean --{near[0]}?" if near else "See --help."
        raise UserError(f"Unknown flag {where}: --{name}. {hint}") from error
    except RecursionError as error:  # absl looks for names that are alike
        raise UserError(
            f"Unknown flag {where}: the name is too long. See --help."
        ) from error
    except _FlagValueError as error:
        raise UserError(error.explain(where)) from error
    except (flags.Error, ValueError) as error:
        raise UserError(f"{error} ({where})") from error
    if positional:
        raise UserError(
            "Every word must belong to a flag: --name=value. Received "
            f"{where}: {' '.join(positional)}"
        )
