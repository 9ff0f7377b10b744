"""Builds the data sets of a corpus: TFRecord files and a manifest.

If training has phases of several lengths, there is a data set for each length,
all made in one pass over the text, with the same documents held out.

The records depend only on the text, the vocabulary, the settings and
`data_seed`, not on the number of processes or threads, nor on how documents are
distributed over files. Memory does not grow with the corpus.

A build first maps, then merges: each shard of the corpus is built, see
`shards`; then the records are distributed over the files of the data sets, see
`merge`. A runner does both steps, see `runners`.
"""

import contextlib
import os
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import build_log, corpus, deduplication
from electra_tf.data.dataset_files import (
    SHARDS_DIRECTORY,
    are_half_published,
    find_data_set,
    find_unfinished,
)
from electra_tf.data.merge import (
    allow_open_files,
    merge,
    remove_data_sets,
    remove_shards,
)
from electra_tf.data.runners import Job, LocalRunner, Runner
from electra_tf.data.shards import HASHES, Shard, plan
from electra_tf.data.summaries import Summary
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError
from electra_tf.util.locks import OUTPUT_LOCK, lock_directory

ONE_PROCESS = LocalRunner(1)
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
    leave_out: Iterable[str] = (),
    runner: Runner = ONE_PROCESS,
    log: build_log.Log = lambda _: None,
) -> dict[str, Any]:
    """Builds the data sets of a corpus."""
    outputs = [config.directory_of(c, output_dir) for c in config.data_sets]
    log(f"Building records in {', '.join(outputs)}")
    _check_free(outputs, overwrite)
    if isinstance(runner, LocalRunner):
        allow_open_files(config)
    progress = build_log.ProgressLog(log)
    sources = corpus.expand(
        config.corpus,
        tfds_data_dir=config.tfds_data_dir,
        leave_out=[*outputs, *leave_out],
    )
    with contextlib.ExitStack() as stack:
        for output in outputs:
            files.ensure_writable(output)
            lock = lock_directory(
                output, OUTPUT_LOCK, "choose another directory"
            )
            stack.enter_context(lock)
        _check_free(outputs, overwrite)  # one may have been built meanwhile
        if are_half_published(outputs):
            remove_data_sets(outputs)
        shards = plan(sources, config, vocabulary, output_dir)
        try:
            manifests = _build_and_merge(
                shards, config, vocabulary, output_dir, runner, progress
            )
        except BrokenPipeError:
            raise  # it comes from `log`, not from the data set
        except (OSError, *STORAGE_ERRORS) as error:
            raise UserError(
                f"The data set could not be written to {output_dir}: {error}. "
                "Finished shards are kept; run the same command to resume."
            ) from error
        finally:
            for output in outputs:
                _remove_incomplete(output)
        remove_shards(output_dir)
    progress.log_result(manifests)
    return manifests[-1]


def _build_and_merge(
    shards: list[Shard],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    output_dir: str,
    runner: Runner,
    progress: build_log.ProgressLog,
) -> list[dict[str, Any]]:
    """Builds the shards that are missing, then merges all shards."""
    planned = shards
    if config.drop_duplicates:
        _map(Job("hash", config, vocabulary), planned, runner, progress)
        dropped = deduplication.find([s.hashes_path for s in planned])
        shards = list(map(Shard.without, planned, dropped))
    _remove_stale_shards([*planned, *shards], output_dir)
    _map(Job("build", config, vocabulary), shards, runner, progress)
    return merge(
        shards,
        config,
        vocabulary,
        output_dir=output_dir,
        runner=runner,
        report=progress.log_records,
    )


def _check_free(outputs: list[str], overwrite: bool) -> None:
    """Checks that there is no data set, unless it may be replaced."""
    if overwrite or are_half_published(outputs):
        return
    for output in outputs:
        if find_data_set(output):
            raise UserError(
                "The output directory must not hold a data set. Received: "
                f"{output}. Choose another one or pass --overwrite."
            )


def _map(
    job: Job,
    shards: list[Shard],
    runner: Runner,
    progress: build_log.ProgressLog,
) -> None:
    """Maps a job over the shards for which an earlier build did not do it."""
    missing, before = [], corpus.Statistics()
    for shard in shards:
        if statistics := _done_before(job, shard):
            before.add(statistics)
        else:
            missing.append(shard)
    total = before.text_bytes + sum(s.num_text_bytes for s in missing)
    progress.begin_text(before, total, is_search=job.step == "hash")
    runner.map_shards(job, missing, progress.log_text)


def _done_before(job: Job, shard: Shard) -> corpus.Statistics | None:
    """Returns the statistics of a job that an earlier build did, else None."""
    if job.step == "build":
        if shard.is_done:
            return Summary.read(shard.summary_path).statistics
    elif storage.exists(shard.hashes_path):
        return corpus.Statistics(
            documents=deduplication.count(shard.hashes_path),
            text_bytes=shard.num_text_bytes,
        )
    return None


def _remove_stale_shards(shards: Iterable[Shard], output_dir: str) -> None:
    """Removes shards of other text, settings or vocabularies."""
    current = {p for s in shards for p in (s.directory, s.hashes_path)}
    for path in find_unfinished(output_dir):
        if path not in current:
            storage.remove(path)


def _remove_incomplete(output_dir: str) -> None:
    """Removes the unfinished files that a later build cannot use."""
    for path in find_unfinished(output_dir):
        if not (path.endswith(HASHES) or Shard((), path).is_done):
            storage.remove(path)
    if not storage.find(os.path.join(output_dir, SHARDS_DIRECTORY), ["*"]):
        remove_shards(output_dir)
