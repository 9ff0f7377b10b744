"""The demo corpus: the English documentation of the installed packages.

The docstrings of the standard library and of required packages are ten million
characters of English. They are read from the source files as text; nothing is
imported or downloaded.
"""

import functools
import importlib.util
import inspect
import pathlib
import re
import sysconfig
from collections.abc import Iterator

PACKAGES = (
    "absl",
    "keras",
    "numpy",
    "tensorflow",
    "tensorflow_datasets",
    "tensorflow_text",
)
MIN_DOCUMENT_CHARACTERS = 200
MIN_PARAGRAPH_CHARACTERS = 40
MIN_LETTER_SHARE = 0.8  # letters and spaces; code and tables have fewer

_NOT_DOCUMENTED = re.compile(
    r"/(site-packages|dist-packages|tests?|testing|[^/]*_test)(\.py|/)"
)
# Comments and strings, wherever they begin outside of each other; a long
# string that begins a line is a docstring.
_TOKEN = re.compile(
    r"""
      \#[^\n]*
    | (?P<indent> ^[ \t]*[rRuU]? )?
      (?: \"{3} (?P<double> [^"\\]* (?: (?: \\. | "(?!"") ) [^"\\]* )* ) \"{3}
        | '{3} (?P<single> [^'\\]* (?: (?: \\. | '(?!'') ) [^'\\]* )* ) '{3} )
    | "     [^"\\\n]* (?: \\. [^"\\\n]* )* "
    | '     [^'\\\n]* (?: \\. [^'\\\n]* )* '
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_FENCED_CODE = re.compile(r"```.*?```", re.DOTALL)
_BLANK_LINE = re.compile(r"\n\s*\n")


@functools.cache  # for the vocabulary and the records
def documents() -> list[list[str]]:
    """Reads the documentation of the standard library and of `PACKAGES`."""
    seen, found = set(), []
    for path in _sources():
        document = []
        for paragraph in _paragraphs(path.read_text("utf-8", "replace")):
            if paragraph not in seen:
                seen.add(paragraph)
                document.append(paragraph)
        if sum(map(len, document)) >= MIN_DOCUMENT_CHARACTERS:
            found.append(document)
    return found


def _sources() -> Iterator[pathlib.Path]:
    roots = [pathlib.Path(sysconfig.get_path("stdlib"))]
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        roots.extend(map(pathlib.Path, spec.submodule_search_locations))
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            name = f"/{path.relative_to(root).as_posix()}"
            if not _NOT_DOCUMENTED.search(name):
                yield path


def _paragraphs(source: str) -> Iterator[str]:
    """Yields the English paragraphs of docstrings, each on one line."""
    for token in _TOKEN.finditer(source):
        text = token["double"] or token["single"]
        if text and token["indent"] is not None:
            text = _FENCED_CODE.sub("", inspect.cleandoc(text))
            for paragraph in _BLANK_LINE.split(text):
                paragraph = " ".join(paragraph.split())
                num_letters = sum(map(str.isalpha, paragraph))
                num_letters += paragraph.count(" ")
                if (
                    len(paragraph) >= MIN_PARAGRAPH_CHARACTERS
                    and num_letters >= MIN_LETTER_SHARE * len(paragraph)
                    and ">>>" not in paragraph
                ):
                    yield paragraph
