"""English text that every installation has: the documentation of its packages.

The docstrings and comments of the standard library, of the packages that
electra_tf requires and of TensorFlow's C++ headers hold about 16 MB of prose.
They are read from the source files as text; nothing is imported or downloaded.
What comes out depends on the installed versions only.
"""

import ast
import importlib.util
import inspect
import pathlib
import re
import sysconfig
import warnings
from collections.abc import Iterator

PACKAGES = (
    "absl",
    "keras",
    "numpy",
    "tensorflow",
    "tensorflow_datasets",
    "tensorflow_text",
)
HEADERS = (  # below tensorflow/include
    "absl",
    "tensorflow",
    "external/boringssl",
    "external/com_github_grpc_grpc",
    "external/llvm-project",
)
MIN_DOCUMENT_CHARACTERS = 200
MIN_SENTENCE_WORDS = 3
MIN_WORD_SHARE = 0.7  # of what white space separates
MIN_FUNCTION_WORD_SHARE = 0.15

_TESTS_AND_GENERATED = re.compile(
    r"/(site-packages|dist-packages|conftest|tests?|testing|test_[^/]*"
    r"|[^/]*_test|[^/]*_pb2|[^/]*\.pb)(/|\.py|\.h)"
)

# Comments, and strings that follow one another, wherever they begin outside
# of each other.
_PYTHON_STRING = r"""(?:
    \"{3} [^"\\]* (?: (?: \\. | "(?!"") ) [^"\\]* )* \"{3}
  | '{3}  [^'\\]* (?: (?: \\. | '(?!'') ) [^'\\]* )* '{3}
  | "     [^"\\\n]* (?: \\. [^"\\\n]* )* "
  | '     [^'\\\n]* (?: \\. [^'\\\n]* )* '
)"""
_PYTHON_TEXT = re.compile(
    rf"""
      \#[^\n]* (?: \n[ \t]*\#[^\n]* )*
    | {_PYTHON_STRING} (?: \s+ {_PYTHON_STRING} )*
    """,
    re.VERBOSE | re.DOTALL,
)
_HEADER_TEXT = re.compile(r"^[ \t]*//[^\n]*(?:\n[ \t]*//[^\n]*)*", re.MULTILINE)
_COMMENT_SIGN = re.compile(r"^[ \t]*(?:#+:?|//+[!<]*) ?", re.MULTILINE)

_FENCED_CODE = re.compile(r"```.*?```", re.DOTALL)
_CODE_LINE = re.compile(r"\s*(>>>|\.\. |#!|[-=*^~+#|]{3,})")
_PARAMETER_AND_TYPE = re.compile(r"\s*\*{0,2}\w[\w, .*]* : ")
_ITEM_SIGN = re.compile(
    r"^\s*(?:[-*+#]+|\(?\w[.)]|\d+[.)]|:\w+ \w+:"
    r"|[`*]*[a-z_]\w*[`*]*(?: \([^)]*\))?:(?!:))\s+"
)
_MARKUP = (
    (re.compile(r"!?\[([^\]]*)\] ?\([^)]*\)"), r"\1"),  # a link of Markdown
    (re.compile(r":[\w:]+:`[~!]?([^`<]*)[^`]*`"), r"\1"),  # a role of Sphinx
    (re.compile(r"(?<!\w)(\*\*?|__?)(\w[^*_]*)\1(?!\w)"), r"\2"),  # emphasis
    (re.compile(r"(?<!\w)\\[a-z]+ "), ""),  # a command of Doxygen
    (re.compile(r"`+_?"), ""),
    (re.compile(r"\s+"), " "),
)
_SENTENCE_END = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][\"')]))(?<!e\.g\.)(?<!i\.e\.) (?=[\"'(]?[A-Z])"
)
_WORD = re.compile(r"[(\"']*([A-Za-z][A-Za-z'-]*)[.,;:!?)\"']*")
_LAST_CHARACTERS = re.compile(r"[.:!?][)\"']*$")
_FUNCTION_WORDS = frozenset(
    "a an all also and any are as at be been but by can does each for from has "
    "have if in into is it its may more must no not of on one only or other "
    "should so such than that the their them then there these they this to "
    "use used was we when where which will with you your".split()
)


def documents() -> Iterator[list[str]]:
    """Reads the documentation of the standard library and of `PACKAGES`.

    Yields:
      The sentences of one source file, the files in a fixed order. A paragraph
      that an earlier file has is left out, and so is a file that keeps fewer
      than `MIN_DOCUMENT_CHARACTERS`.
    """
    seen = set()
    for path in _source_files():
        document = []
        for text in _texts(path):
            for sentences in _paragraphs(text):
                if sentences not in seen:
                    seen.add(sentences)
                    document.extend(sentences)
        if sum(map(len, document)) >= MIN_DOCUMENT_CHARACTERS:
            yield document


def _source_files() -> Iterator[pathlib.Path]:
    yield from _files(pathlib.Path(sysconfig.get_path("stdlib")), "*.py")
    for package in PACKAGES:
        yield from _files(_directory(package), "*.py")
    for header in HEADERS:
        root = _directory("tensorflow") / "include" / header
        yield from _files(root, "*.h")


def _directory(package: str) -> pathlib.Path:
    spec = importlib.util.find_spec(package)
    return pathlib.Path(spec.submodule_search_locations[0])


def _files(root: pathlib.Path, pattern: str) -> Iterator[pathlib.Path]:
    for path in sorted(root.rglob(pattern)):
        name = path.relative_to(root).as_posix()
        if not _TESTS_AND_GENERATED.search(f"/{name}"):
            yield path


def _texts(path: pathlib.Path) -> Iterator[str]:
    """Yields the blocks of comments and the strings of several lines."""
    source = path.read_text("utf-8", errors="replace")
    pattern = _PYTHON_TEXT if path.suffix == ".py" else _HEADER_TEXT
    for match in pattern.finditer(source):
        text = match.group()
        if text[0] not in "\"'":
            yield _COMMENT_SIGN.sub("", text)
        elif text[:3] in ('"""', "'''") or r"\n" in text:
            is_raw = source[max(0, match.start() - 1)] in "rR"
            yield inspect.cleandoc(_evaluate("r" * is_raw + text))


def _evaluate(literal: str) -> str:
    with warnings.catch_warnings(action="ignore"):
        try:
            return ast.literal_eval(f"({literal})")
        except SyntaxError:  # the escapes are not those of a `str`
            return ""


def _paragraphs(text: str) -> Iterator[tuple[str, ...]]:
    """Yields the paragraphs of a text as their sentences that are prose."""
    for paragraph in _split(_FENCED_CODE.sub("\n\n", text)):
        for pattern, replacement in _MARKUP:
            paragraph = pattern.sub(replacement, paragraph)
        sentences = _SENTENCE_END.split(paragraph.strip())
        if prose := tuple(filter(_reads_as_prose, sentences)):
            yield prose


def _split(text: str) -> Iterator[str]:
    """Yields the paragraphs and list items of a text, each as one line."""
    paragraph: list[str] = []
    previous = ""
    in_code = False
    for line in text.splitlines():
        is_blank = not line.strip()
        in_code = not is_blank and (in_code or bool(_CODE_LINE.match(line)))
        skipped = is_blank or in_code or _PARAMETER_AND_TYPE.match(line)
        if paragraph and (skipped or _begins_paragraph(line, previous)):
            yield " ".join(paragraph)
            paragraph = []
        if not skipped:
            paragraph.append(_ITEM_SIGN.sub("", line).strip())
        previous = line
    yield " ".join(paragraph)


def _begins_paragraph(line: str, previous: str) -> bool:
    indent = len(line) - len(line.lstrip())
    previous_indent = len(previous) - len(previous.lstrip())
    return (
        indent < previous_indent
        or (indent > previous_indent and previous.endswith(":"))
        or _ITEM_SIGN.match(line) is not None
    )


def _reads_as_prose(sentence: str) -> bool:
    tokens = sentence.split()
    words = [m[1].lower() for m in map(_WORD.fullmatch, tokens) if m]
    num_function_words = sum(word in _FUNCTION_WORDS for word in words)
    return (
        len(words) >= max(MIN_SENTENCE_WORDS, MIN_WORD_SHARE * len(tokens))
        and num_function_words >= MIN_FUNCTION_WORD_SHARE * len(tokens)
        and _LAST_CHARACTERS.search(sentence) is not None
        and "=" not in tokens
        and sentence.isprintable()
    )
