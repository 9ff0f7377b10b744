"""Templates and label words that turn classification into a cloze test.

A file, as configs/prompts/sst2.cfg, has these lines:

    # a comment
    column: label
    template: {sentence} It was {label} .
    label 0: terrible
    label 1: great

Names in braces are columns of the examples, {label} is the label word, and
"column" names the column of the class, by default "label". There may be several
templates; every class needs a label word.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from electra_tf.analysis.examples import example_files
from electra_tf.data import tables
from electra_tf.data.tables import BadRowError
from electra_tf.util import storage
from electra_tf.util.errors import UserError

LABEL = "label"

_LINE = re.compile(
    r"(?P<key>column|template|label (?P<label>\S+)):(?P<value>.*)"
)
_BRACES = re.compile(r"\{([^{}]*)\}")


class Template(NamedTuple):
    """A text with gaps."""

    text: str
    parts: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The gaps that an example's columns fill."""
        return tuple(x for x in self.parts[1::2] if x != LABEL)


class Prompts(NamedTuple):
    """The contents of a file of templates."""

    templates: tuple[Template, ...]
    label_words: dict[str, str]
    label_column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that fill a gap, each once."""
        names = (name for x in self.templates for name in x.columns)
        return tuple(dict.fromkeys(names))


def read(path: str) -> Prompts:
    """Reads a file of templates."""
    if not storage.is_file(path):
        raise UserError(
            "`templates` must be a file of templates and label words. "
            f"Received: {path!r}. Set --templates, for "
            "example to configs/prompts/sst2.cfg."
        )
    return _parse(path, tables.read_lines(path))


def _parse(path: str, lines: Iterable[str]) -> Prompts:
    templates: list[Template] = []
    label_words: dict[str, str] = {}
    column = LABEL
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if not text.strip() or text.startswith("#"):
            continue
        with example_files.BAD_ROWS.at(path, number):
            key, label, value = _parse_line(text)
            if key == "template":
                templates.append(_parse_template(value))
            elif key == "column":
                column = value
            elif label in label_words:
                raise BadRowError(
                    "A label must have one line. Received: a second one for "
                    f"{label!r}."
                )
            else:
                label_words[label] = value
    if not templates or len(label_words) < 2:
        raise UserError(
            f"{path} must have a template or more, and the words of two labels "
            f"or more. Received: {len(templates)} templates, "
            f"{len(label_words)} labels."
        )
    return Prompts(tuple(templates), label_words, column)


def _parse_line(text: str) -> tuple[str, str, str]:
    """Returns key, label ("" if the line is not a label's) and value."""
    match = _LINE.fullmatch(text)
    if not match or not match["value"].strip():
        raise BadRowError(
            "A line must be `template: TEXT`, `label CLASS: WORD` or `column: "
            f"NAME`. Received: {text!r}."
        )
    return match["key"], match["label"] or "", match["value"].strip()


def _parse_template(text: str) -> Template:
    template = Template(text, tuple(_BRACES.split(text)))
    gaps = template.parts[1::2]
    if gaps.count(LABEL) != 1 or not template.columns:
        raise BadRowError(
            "A template must have {label} once, and the name of a column or "
            f"more in braces. Received: {text!r}."
        )
    return template
