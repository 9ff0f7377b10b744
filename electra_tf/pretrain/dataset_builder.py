"""From a corpus to a data set: TFRecord files and a manifest.

The records depend on the text, the vocabulary, the settings and `data_seed`
alone, not on the number of processes or threads, nor on how documents lie in
files. Memory does not grow with the corpus.

The records of the parts of the corpus are built first, see `parts`; then they
are dealt out to the files of the data set.
"""

import collections
import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.configure_corpus import CorpusConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import corpus, held_out, processes, unigram_counts
from electra_tf.pretrain import parts as parts_lib
from electra_tf.pretrain.parts import Part, Summary
from electra_tf.pretrain.record_format import (
    FORMAT_VERSION,
    HELD_OUT,
    MANIFEST,
    PARTS,
    TRAIN,
    UNIGRAM_COUNTS,
    ShardWriter,
    find_data_set,
    find_unfinished,
)
from electra_tf.util import files
from electra_tf.util.errors import UserError

SHARD_BYTES = 16 * 2**20  # a shard is about as large as its text
MAX_SHARDS = 512  # all are open at once
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
    """Builds the data set of a corpus.

    An older data set stays as it is until the new one is complete. A build
    that was stopped, or failed, goes on where it was.

    Args:
      config: the corpus and how to pack it.
      vocabulary: of its tokens.
      output_dir: where the files go.
      overwrite: whether to replace a data set that lies there.
      num_processes: that build at the same time; 0 for one a core, or fewer
        where there is little text.
      report: called now and then.

    Returns:
      The manifest.

    Raises:
      UserError: if a data set lies there already, if the corpus cannot be
        read or gives no record for training, or if the files cannot be
        written.
    """
    if not overwrite and find_data_set(output_dir):
        raise UserError(
            "The output directory must not hold a data set. Received: "
            f"{output_dir}. Choose another one or pass --overwrite."
        )
    sources = corpus.expand(config.corpus, tfds_data_dir=config.tfds_data_dir)
    files.ensure_writable(output_dir)
    parts = parts_lib.plan(sources, config, vocabulary, output_dir)
    _remove_strangers(parts, output_dir)
    try:
        _build_parts(parts, config, vocabulary, num_processes, report)
        manifest = _assemble(parts, config, vocabulary, output_dir)
    except BrokenPipeError:
        raise  # of what listens to `report`, not of the data set
    except (OSError, tf.errors.ResourceExhaustedError) as error:
        raise UserError(
            f"The data set could not be written to {output_dir}: {error}. "
            "What is built is kept there; the same command goes on."
        ) from error
    finally:
        _remove_incomplete(output_dir)
    _remove_parts(output_dir)
    return manifest


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


def _assemble(
    parts: list[Part],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    output_dir: str,
) -> dict[str, Any]:
    """Makes the data set of its parts; returns the manifest."""
    summaries = [Summary.of(part) for part in parts]
    if waiting := _decide(summaries):
        rest = parts_lib.build_of_documents(
            waiting, config, vocabulary, output_dir
        )
        parts = [*parts, rest]
        summaries.append(Summary.of(rest))
    try:
        counts = _counts(summaries, config)
    except UserError:
        _remove_parts(output_dir)  # this text gives nothing
        raise
    numbers = _numbers_of_shards(config, counts["text_bytes"])
    manifest = _settings(config, vocabulary) | {"counts": counts}
    unigrams = np.sum([summary.unigrams for summary in summaries], axis=0)
    counts["train_tokens"] = int(unigrams.sum())
    _deal_out(parts, numbers, output_dir, manifest, unigrams.tolist())
    return manifest


def _decide(summaries: Iterable[Summary]) -> list[held_out.Document]:
    """Returns the documents that waited for all others, with their splits."""
    waiting = [d for summary in summaries for d in summary.waiting]
    splits = {name for summary in summaries for name in summary.splits}
    return held_out.decide(waiting, splits)


def _counts(
    summaries: Iterable[Summary], config: CorpusConfig
) -> dict[str, Any]:
    """Returns the manifest's counts."""
    read, packed = corpus.Statistics(), collections.Counter()
    for summary in summaries:
        read.add(corpus.Statistics(**summary.statistics))
        packed.update(summary.counts)
    _check_records(read, packed, config)
    num_slots = packed["records"] * config.max_seq_length
    num_padding = num_slots - packed["tokens_kept"] - packed["special_tokens"]
    return dataclasses.asdict(read) | {
        "held_out_documents": packed["held_out_documents"],
        "documents_without_tokens": packed["documents_without_tokens"],
        "tokens_read": packed["tokens_read"],
        "tokens_kept": packed["tokens_kept"],
        "tokens_dropped": packed["tokens_read"] - packed["tokens_kept"],
        "padding_share": round(num_padding / num_slots, 6),
        "records": packed["records"],
        "held_out_records": packed["held_out_records"],
    }


def _check_records(
    read: corpus.Statistics, packed: Mapping[str, int], config: CorpusConfig
) -> None:
    """Checks that there is text, and a record to train on."""
    corpus.check_text(read)
    if packed["records"] <= packed["held_out_records"]:
        raise UserError(
            "The corpus must give at least one record for training. Received: "
            f"{read.documents} document(s) with {packed['tokens_read']} "
            f"token(s), held_out_fraction={config.held_out_fraction}."
        )


def _numbers_of_shards(config: CorpusConfig, num_bytes: int) -> dict[str, int]:
    num_train = config.num_shards or min(
        MAX_SHARDS, 1 + num_bytes // SHARD_BYTES
    )
    num_held_out = max(1, round(num_train * config.held_out_fraction))
    return {TRAIN: num_train, HELD_OUT: num_held_out}


def _settings(config: CorpusConfig, vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "vocab_sha256": vocabulary.sha256,
        "vocab_size": vocabulary.size,
        "tokenizer": vocabulary.kind,
        "pad_vocab_to_multiple": config.pad_vocab_to_multiple,
        "do_lower_case": config.do_lower_case,
        "strip_accents": config.strip_accents,
        "max_seq_length": config.max_seq_length,
        "packing": "original" if config.original_packing else "carry",
        "blanks_separate_docs": config.blanks_separate_docs,
        "held_out_fraction": config.held_out_fraction,
        "data_seed": config.data_seed,
        "corpus": list(config.corpus),
    }


def _deal_out(
    parts: Iterable[Part],
    numbers_of_shards: dict[str, int],
    output_dir: str,
    manifest: dict[str, Any],
    unigrams: list[int],
) -> None:
    """Writes the records of the parts to the files of the data set."""
    with contextlib.ExitStack() as stack:
        writers = {
            split: stack.enter_context(ShardWriter(output_dir, split, number))
            for split, number in numbers_of_shards.items()
        }
        for part in parts:
            for split, writer in writers.items():
                for record in part.records(split):
                    writer.write(record)
        for writer in writers.values():
            writer.close()
        _publish(output_dir, manifest, unigrams, writers.values())


def _publish(
    output_dir: str,
    manifest: dict[str, Any],
    unigrams: list[int],
    writers: Iterable[ShardWriter],
) -> None:
    """Puts the complete data set in the place of an older one."""
    _remove(find_data_set(output_dir))
    try:
        manifest["files"] = [
            entry for writer in writers for entry in writer.publish()
        ]
        path = os.path.join(output_dir, UNIGRAM_COUNTS)
        files.atomic_write_text(path, unigram_counts.lines(unigrams))
        files.write_json(os.path.join(output_dir, MANIFEST), manifest)
    except BaseException:
        _remove(find_data_set(output_dir))
        raise


def _remove_strangers(parts: Iterable[Part], output_dir: str) -> None:
    """Removes parts of other text, settings or vocabularies."""
    ours = {part.directory for part in parts}
    for path in find_unfinished(output_dir):
        if path not in ours:
            _remove([path])


def _remove_incomplete(output_dir: str) -> None:
    """Removes all that a later build cannot use."""
    for path in find_unfinished(output_dir):
        if not Part((), path).is_done:
            _remove([path])
    with contextlib.suppress(OSError):  # not there, or not empty
        os.rmdir(os.path.join(output_dir, PARTS))


def _remove_parts(output_dir: str) -> None:
    shutil.rmtree(os.path.join(output_dir, PARTS), ignore_errors=True)


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.remove(path)
