"""From a corpus to a data set: TFRecord files and a manifest.

Where a training has phases of several lengths there is a data set of each, all
made from one pass over the text, with the same documents held out.

The records depend on the text, the vocabulary, the settings and `data_seed`
alone, not on the number of processes or threads, nor on how documents lie in
files. Memory does not grow with the corpus.

The records of the parts of the corpus are built first, see `parts`; then they
are dealt out to the files of the data set.
"""

import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from electra_tf.configure_corpus import CorpusConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import corpus, processes
from electra_tf.pretrain import parts as parts_lib
from electra_tf.pretrain.assembly import (
    assemble,
    remove_files,
    remove_parts,
)
from electra_tf.pretrain.parts import Part, Summary
from electra_tf.pretrain.record_format import (
    PARTS,
    find_data_set,
    find_unfinished,
)
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError
from electra_tf.util.locks import DirectoryLock

LOCK = ".lock"
STORAGE_ERRORS = (
    tf.errors.AbortedError,
    tf.errors.PermissionDeniedError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnavailableError,
)
PARTS_PER_PROCESS = 4  # at least, where the number of processes is not given


class Progress(NamedTuple):
    """How far a build has come.

    Attributes:
      num_documents: read so far.
      num_bytes: of text, read so far.
      total_bytes: of text there are, about; 0 if that is not known.
      bytes_before: read by an earlier build that was stopped.
    """

    num_documents: int
    num_bytes: int
    total_bytes: int
    bytes_before: int


Report = Callable[[Progress], None]


def build(
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    output_dir: str,
    overwrite: bool = False,
    num_processes: int = 1,
    report: Report = lambda _: None,
) -> dict[str, Any]:
    """Builds the data sets of a corpus.

    An older data set stays as it is until the new one is complete. A build
    that was stopped, or failed, goes on where it was.

    Args:
      config: the corpus and how to pack it.
      vocabulary: of its tokens.
      output_dir: where the files go; those of shorter rows go beside it, see
        `CorpusConfig.directory_of`.
      overwrite: whether to replace a data set that lies there.
      num_processes: that build at the same time; 0 for one a core, or fewer
        where there is little text.
      report: called now and then.

    Returns:
      The manifest of the data set with the longest rows.

    Raises:
      UserError: if a data set lies there already, if the corpus cannot be
        read or gives no record for training, or if the files cannot be
        written.
      DirectoryInUseError: if another build writes there.
    """
    outputs = [config.directory_of(c, output_dir) for c in config.data_sets]
    _check_free(outputs, overwrite)
    sources = corpus.expand(config.corpus, tfds_data_dir=config.tfds_data_dir)
    with contextlib.ExitStack() as stack:
        for output in outputs:
            files.ensure_writable(output)
            if not storage.is_remote(output):  # stores know no locks
                lock = DirectoryLock(output, LOCK, "give another --output_dir")
                stack.enter_context(lock)
        _check_free(outputs, overwrite)  # one may have been built meanwhile
        parts = parts_lib.plan(sources, config, vocabulary, output_dir)
        _remove_strangers(parts, output_dir)
        try:
            _build_parts(parts, config, vocabulary, num_processes, report)
            manifest = assemble(parts, config, vocabulary, output_dir)
        except BrokenPipeError:
            raise  # of what listens to `report`, not of the data set
        except (OSError, *STORAGE_ERRORS) as error:
            raise UserError(
                f"The data set could not be written to {output_dir}: {error}. "
                "What is built is kept there; the same command goes on."
            ) from error
        finally:
            for output in outputs:
                _remove_incomplete(output)
        remove_parts(output_dir)
    return manifest


def _check_free(outputs: Iterable[str], overwrite: bool) -> None:
    """Checks that there is no data set, unless it may be replaced."""
    for output in outputs:
        if not overwrite and find_data_set(output):
            raise UserError(
                "The output directory must not hold a data set. Received: "
                f"{output}. Choose another one or pass --overwrite."
            )


def _build_parts(
    parts: list[Part],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    num_processes: int,
    report: Report,
) -> None:
    """Builds the parts that are not there."""
    before = corpus.Statistics()
    for part in parts:
        if part.is_done:
            before.add(corpus.Statistics(**Summary.of(part).statistics))
    total = sum(part.num_text_bytes for part in parts)

    def report_sum(num_documents: int, num_bytes: int) -> None:
        report(
            Progress(
                before.documents + num_documents,
                before.text_bytes + num_bytes,
                total,
                before.text_bytes,
            )
        )

    missing = [part for part in parts if not part.is_done]
    num_processes = _num_processes(num_processes, len(missing))
    if num_processes > 1:
        processes.build(missing, config, vocabulary, num_processes, report_sum)
        return
    read = corpus.Statistics()  # in the parts before
    for part in missing:
        parts_lib.build(
            part,
            config,
            vocabulary,
            report=lambda now: report_sum(
                read.documents + now.documents, read.text_bytes + now.text_bytes
            ),
        )
        read.add(corpus.Statistics(**Summary.of(part).statistics))


def _num_processes(asked: int, num_parts: int) -> int:
    """Returns how many processes build so many parts."""
    if not asked:  # each takes seconds to start
        asked = min(processes.num_cores(), num_parts // PARTS_PER_PROCESS)
    return min(asked, num_parts)


def _remove_strangers(parts: Iterable[Part], output_dir: str) -> None:
    """Removes parts of other text, settings or vocabularies."""
    ours = {part.directory for part in parts}
    for path in find_unfinished(output_dir):
        if path not in ours:
            remove_files([path])


def _remove_incomplete(output_dir: str) -> None:
    """Removes all that a later build cannot use."""
    for path in find_unfinished(output_dir):
        if not Part((), path).is_done:
            remove_files([path])
    if not storage.find(os.path.join(output_dir, PARTS), ["*"]):
        remove_parts(output_dir)
