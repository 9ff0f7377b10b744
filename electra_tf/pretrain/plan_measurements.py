"""Measurements for a plan: an update's time and memory, and the text's size.

Each is made in a process of its own, so that the peak memory of the process is
that of the measurement. This module imports no TensorFlow; these processes do.
"""

import dataclasses
import io
import json
import math
import multiprocessing
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import IO, BinaryIO, NamedTuple, TypeVar

from electra_tf.config.corpus import CorpusConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data import corpus, sources
from electra_tf.data.formats import compression, contents, rows
from electra_tf.data.formats.contents import ContentKind
from electra_tf.pretrain.planning import TimedUpdate
from electra_tf.util import (
    console,
    machine,
    memory,
    optional_packages,
    storage,
    threads,
)
from electra_tf.util.errors import UserError

_SAMPLE_BYTES = 8_000_000
_MAX_SOURCES = 64  # of the sample
_TEXT_FIELD = "text"  # of its lines
_EXPANSION_BYTES = 2**22  # to unpack, to measure how much a file expands
_JSON_BYTES = 2**20  # of lines, to measure how much of them is text
_ERRORS = (
    *compression.ERRORS,
    contents.UnsupportedContentError,
    ValueError,  # a `UserError`, a bad row, Arrow's
)
_NUM_REPETITIONS = 3
_SECONDS_PER_REPETITION = 2.0
_MAX_STEPS = 500  # in a piece

Result = TypeVar("Result")


class CorpusSize(NamedTuple):
    """The size of a corpus, estimated from a sample."""

    num_bytes: float
    num_tokens: float
    vocab_size: int


def in_own_process(
    function: Callable[[PretrainingConfig], Result], config: PretrainingConfig
) -> Result:
    """Calls a function in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_send_result, args=(sender, function, config), daemon=True
    )
    process.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError as error:
        process.join()
        raise UserError(
            "A measurement must finish. Received: a process that exited with "
            f"code {process.exitcode}; if it was killed, memory ran out. Close "
            "other programs, or set a smaller --size."
        ) from error
    process.join()
    if isinstance(result, Exception):
        raise result
    return result


def _send_result(
    pipe: Connection, function: Callable, config: PretrainingConfig
) -> None:
    """Sends the result or the exception of a function."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    try:
        pipe.send(function(config))
    except Exception as error:
        pipe.send(error)


def measure_update(config: PretrainingConfig) -> TimedUpdate:
    """Times whole updates on one batch of random ids."""
    began = time.perf_counter()
    memory.keep_if(config.runtime.keep_memory)
    threads.limit_intra_op_threads(config.num_activations)
    with console.quiet_imports():
        from electra_tf.pretrain import pretraining_run, training_batches
        from electra_tf.training import training_utils
        from electra_tf.util import distribution

    strategy = distribution.make_strategy(config.runtime.strategy)
    vocabulary = training_batches.placeholder_vocabulary(config.corpus)
    model = pretraining_run.make_model(config, vocabulary, strategy)
    block = training_utils.make_block(model, strategy)
    batches = training_batches.random_batches(config, strategy)

    def seconds(num_steps: int) -> float:
        start = time.perf_counter()
        block(batches, num_steps)
        return (time.perf_counter() - start) / num_steps

    seconds(1)
    start_seconds = time.perf_counter() - began
    num_steps = min(_MAX_STEPS, math.ceil(_SECONDS_PER_REPETITION / seconds(2)))
    update_seconds = statistics.median(
        seconds(num_steps) for _ in range(_NUM_REPETITIONS)
    )
    peak_bytes = machine.proc_bytes("self/status", "VmHWM")
    return TimedUpdate(config, update_seconds, start_seconds, peak_bytes)


def count_tokens(config: PretrainingConfig) -> CorpusSize:
    """Estimates the tokens of a corpus by building the records of a sample."""
    with console.quiet_imports():
        from electra_tf.data import preparation

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "sample.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            num_bytes, num_sampled = _write_sample(config.corpus, file)
        sampled = dataclasses.replace(
            config,
            corpus=dataclasses.replace(
                config.corpus,
                corpus=(path,),
                text_field=_TEXT_FIELD,
                held_out_fraction=0.0,
            ),
            run=dataclasses.replace(config.run, data_dir=directory),
            runtime=dataclasses.replace(config.runtime, num_processes=1),
        )
        prepared = preparation.prepare(sampled, log=lambda _: None)
    length = config.corpus.max_seq_length
    num_tokens = prepared.train[length].num_records * length
    return CorpusSize(
        num_bytes,
        num_bytes / num_sampled * num_tokens,
        prepared.vocabulary.size,
    )


def _write_sample(config: CorpusConfig, file: IO[str]) -> tuple[float, int]:
    """Writes documents from all over a corpus."""
    found = sources.expand(config.corpus, tfds_data_dir=config.tfds_data_dir)
    chosen = found[:: math.ceil(len(found) / _MAX_SOURCES)]
    num_bytes, total = 0.0, corpus.Statistics()
    for source in chosen:
        size = _text_bytes(source, config.text_field)
        read = corpus.Statistics()
        for document in corpus.read_documents(
            [source], config, statistics=read, must_have_text=False
        ):
            text = "\n".join(document)
            file.write(json.dumps({_TEXT_FIELD: text}) + "\n")
            if size and read.text_bytes * len(chosen) >= _SAMPLE_BYTES:
                break
        else:
            size = read.text_bytes  # all of it
        num_bytes += size
        total.add(read)
    corpus.check_text(total)
    if chosen_bytes := sum(source.num_text_bytes for source in chosen):
        num_bytes *= (
            sum(source.num_text_bytes for source in found) / chosen_bytes
        )
    return num_bytes, total.text_bytes


def _text_bytes(source: sources.TextSource, text_field: str) -> float:
    """Returns the bytes of text of a source; 0 if they are not known."""
    path = source.path
    if source.split or path == sources.DEMO:
        return source.num_text_bytes
    try:
        size = float(storage.size(path))
        if compression.is_compressed(path):
            with storage.open_binary(path) as packed:
                size *= _expansion(path, packed)
        with storage.open_binary(path) as file:
            return size * _share_of_text(path, file, text_field)
    except _ERRORS:  # reported once the file is really read
        return source.num_text_bytes


def _share_of_text(path: str, file: BinaryIO, text_field: str) -> float:
    """Returns the share of text in the beginning of an unpacked file."""
    name, kind, content = contents.unpack(path, file)
    if kind is ContentKind.PARQUET:
        return _parquet_bytes(file, text_field) / storage.size(path)
    if kind is ContentKind.TEXT:
        kind, content = contents.identify_lines(name, content)
    if kind is not ContentKind.JSON_LINES:
        return 1.0
    lines = content.readlines(_JSON_BYTES)
    records = rows.json_records(lines, allows_surrogates=True)
    texts = (x.string(text_field) for x in records if x.has(text_field))
    num_bytes = sum(len(x.encode(errors="surrogatepass")) for x in texts)
    return num_bytes / max(1, sum(map(len, lines)))


def _parquet_bytes(file: BinaryIO, column: str) -> int:
    """Returns the size of a column of a Parquet file, unpacked."""
    parquet = optional_packages.load("pyarrow.parquet")
    metadata = parquet.ParquetFile(file).metadata
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    chunks = (g.column(i) for g in groups for i in range(g.num_columns))
    return sum(
        chunk.total_uncompressed_size
        for chunk in chunks
        if chunk.path_in_schema == column
    )


def _expansion(path: str, packed: BinaryIO) -> float:
    """Returns the bytes of text per byte of the beginning of a compressed
    file."""
    _, content = compression.decompress(path, packed)
    num_bytes = position = 0
    while part := content.read(io.DEFAULT_BUFFER_SIZE):
        if packed.tell() > position:
            if position and num_bytes >= _EXPANSION_BYTES:
                break
            position = packed.tell()
        num_bytes += len(part)
    return num_bytes / max(1, position)
