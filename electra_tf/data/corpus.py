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
    """Reads the documents of sources one after the other."""
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
    """Checks that documents were read."""
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
