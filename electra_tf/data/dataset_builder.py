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
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus
from electra_tf.data.engines import Engine, LocalEngine, Report
from electra_tf.data.merge import assemble, remove_files, remove_parts
from electra_tf.data.record_format import PARTS, find_data_set, find_unfinished
from electra_tf.data.shards import HASHES, Part, hashes_path, plan
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError
from electra_tf.util.locks import DirectoryLock

LOCK = ".lock"
ONE_PROCESS = LocalEngine(1)
STORAGE_ERRORS = (
    tf.errors.AbortedError,
    tf.errors.PermissionDeniedError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnavailableError,
)


def build(
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    output_dir: str,
    overwrite: bool = False,
    engine: Engine = ONE_PROCESS,
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
      engine: takes the steps that read the corpus.
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
        whole = plan(sources, config, vocabulary, output_dir)
        try:
            parts = _without_duplicates(whole, config, engine, report)
            ours = {*map(hashes_path, whole), *(p.directory for p in parts)}
            _remove_strangers(ours, output_dir)
            engine.build(parts, config, vocabulary, report)
            manifest = assemble(
                parts,
                config,
                vocabulary,
                output_dir=output_dir,
                engine=engine,
                report=report,
            )
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


def _without_duplicates(
    parts: list[Part], config: CorpusConfig, engine: Engine, report: Report
) -> list[Part]:
    """Returns the parts with what they lack if duplicates are left out."""
    if not config.drop_duplicates:
        return parts
    dropped = engine.find_duplicates(parts, config, report)
    return list(map(Part.without, parts, dropped))


def _remove_strangers(ours: set[str], output_dir: str) -> None:
    """Removes what comes of other text, settings or vocabularies."""
    for path in find_unfinished(output_dir):
        if path not in ours:
            remove_files([path])


def _remove_incomplete(output_dir: str) -> None:
    """Removes all that a later build cannot use."""
    for path in find_unfinished(output_dir):
        if not (path.endswith(HASHES) or Part((), path).is_done):
            remove_files([path])
    if not storage.find(os.path.join(output_dir, PARTS), ["*"]):
        remove_parts(output_dir)
