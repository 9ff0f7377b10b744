"""Corpora as streams of documents, read in constant memory."""

from collections.abc import Iterable, Iterator

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import demo_corpus
from electra_tf.data.formats import prepared, text_files
from electra_tf.data.formats.text_lines import LEFT_OUT, Statistics, TextLine
from electra_tf.data.sources import DEMO, TextSource
from electra_tf.util.errors import UserError

MAX_DOCUMENT_CHARACTERS = 2**17


def read_documents(
    sources: Iterable[TextSource],
    config: CorpusConfig,
    *,
    statistics: Statistics,
    max_characters: int = MAX_DOCUMENT_CHARACTERS,
    must_have_text: bool = True,
) -> Iterator[list[str]]:
    """Reads the documents of sources one after the other.

    A line is a "sentence"; a document ends at a blank line or with its file.
    A file in an archive, an object of JSON lines and an example of a data set
    are one document each, even if they have blank lines. A line of more than
    `MAX_LINE_BYTES` is cut, at white space if there is any. A document of more
    than `max_characters` is cut between lines: the pieces count as documents,
    so that a text without document boundaries can still be split.

    Args:
      sources: the sources, in the order in which to read them.
      config: how to read them; where `blanks_separate_docs` is not set, blank
        lines are left out.
      statistics: counts what is read.
      max_characters: maximum length of a document.
      must_have_text: whether sources without a document are an error.

    Yields:
      The lines of a document, without white space around them and never blank.

    Raises:
      UserError: if a file cannot be read, naming it, or if there is no text.
    """
    for source in sources:
        statistics.files += source.start == 0
        num_before = statistics.documents
        lines = _read(source, config, statistics)
        for document in _group(
            lines, config.blanks_separate_docs, max_characters, statistics
        ):
            statistics.documents += 1
            statistics.lines += len(document)
            yield document
        is_whole = source.start == 0 and source.end is None
        is_empty = statistics.documents == num_before
        statistics.empty_files += is_whole and is_empty
    if must_have_text:
        check_text(statistics)


def check_text(statistics: Statistics) -> None:
    """Checks that documents were read.

    Args:
      statistics: the counts of what was read.

    Raises:
      UserError: if there were none, with these counts.
    """
    if statistics.documents:
        return
    counts = vars(statistics)
    reasons = [
        f"{counts[name]} {what}"
        for name, what in LEFT_OUT.items()
        if counts[name]
    ]
    raise UserError(
        "The corpus must hold text in UTF-8. Received: "
        f"{statistics.files} file(s) with {statistics.text_bytes} bytes of "
        f"text; left out: {', '.join(reasons) or 'nothing'}."
    )


def _read(
    source: TextSource, config: CorpusConfig, statistics: Statistics
) -> Iterator[TextLine]:
    """Yields the lines of a source, stripped."""
    if source.path == DEMO:
        for document in demo_corpus.documents():
            for line in [*document, ""]:
                statistics.text_bytes += len(line.encode()) + 1
                yield line
    elif source.split:
        yield from prepared.read_texts(
            source.path, source.split, config.text_field, statistics
        )
    else:
        yield from text_files.read_file(
            source.path, statistics, config, start=source.start, end=source.end
        )


def _group(
    lines: Iterable[TextLine],
    blanks_separate_docs: bool,
    max_characters: int,
    statistics: Statistics,
) -> Iterator[list[str]]:
    """Joins lines into documents."""
    document: list[str] = []
    size = 0
    for line in lines:
        if line:
            if document and size + len(line) > max_characters:
                statistics.cut_documents += 1
                yield document
                document, size = [], 0
            document.append(line)
            size += len(line)
        elif document and (blanks_separate_docs or line is None):
            yield document
            document, size = [], 0
    if document:
        yield document
