"""What a plan measures: an update's time and memory, the text, the machine.

Updates and text are measured in a process of its own each: the peak of its
memory is then that of the one measurement, and the memory is the system's again
afterwards. So this module imports no TensorFlow; each such process does.
"""

import dataclasses
import math
import multiprocessing
import os
import pathlib
import platform
import re
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from electra_tf.config.corpus import CorpusConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data import corpus, sources
from electra_tf.data.formats import compression
from electra_tf.data.runners import num_cores
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.pretrain.plan_sizes import vocab_size
from electra_tf.pretrain.planning import Measured
from electra_tf.util import console, memory, storage
from electra_tf.util.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf

_SAMPLE_BYTES = 8_000_000
_MAX_SOURCES = 64  # of the sample
_EXPANSION_BYTES = 2**22  # unpacked, to see how much a file expands
_NUM_PIECES = 3
_SECONDS_A_PIECE = 2.0
_MAX_STEPS = 500  # in a piece
_PROC = pathlib.Path("/proc")

Result = TypeVar("Result")


class Text(NamedTuple):
    """A corpus, by a sample.

    Attributes:
      num_bytes: of its text.
      num_tokens: of its records, special ones included.
      vocab_size: of the vocabulary that the tokens are of.
    """

    num_bytes: float
    num_tokens: float
    vocab_size: int


def apart(function: Callable[..., Result], *arguments: object) -> Result:
    """Calls a function in a process of its own.

    Args:
      function: of a module, that imports TensorFlow when it is called.
      *arguments: of the function.

    Raises:
      UserError: as the function does, or if the process was killed.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=_answer, args=(theirs, function, arguments), daemon=True
    )
    process.start()
    theirs.close()
    try:
        result = ours.recv()
    except EOFError as error:
        process.join()
        raise UserError(
            "A measurement must come to its end. Received: a process that "
            f"ended with code {process.exitcode}; if it was killed, there was "
            "too little memory. End other programs, or give a smaller --size."
        ) from error
    process.join()
    if isinstance(result, Exception):
        raise result
    return result


def _answer(
    pipe: Connection, function: Callable[..., Any], arguments: tuple
) -> None:
    """Sends what a function returns or raises."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends us
    try:
        pipe.send(function(*arguments))
    except Exception as error:
        pipe.send(error)


def measure_update(config: PretrainingConfig) -> Measured:
    """Times whole updates on one batch of random ids.

    Args:
      config: of one phase; no file of it is read.

    Returns:
      The median over three pieces of some seconds, tracing left out.
    """
    began = time.perf_counter()
    memory.keep_if(config.runtime.keep_memory)
    with console.quiet_imports():
        from electra_tf.pretrain import pretraining_run
        from electra_tf.training import training_utils
        from electra_tf.util import distribution

    strategy = distribution.make_strategy(config.runtime.strategy)
    words = (f"w{i}" for i in range(vocab_size(config) - len(SPECIAL_TOKENS)))
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *words))
    model = pretraining_run.make_model(config, vocabulary, strategy)
    block = training_utils.make_block(model, strategy)
    batches = _random_batches(config, strategy)

    def seconds(num_steps: int) -> float:
        start = time.perf_counter()
        block(batches, num_steps)
        return (time.perf_counter() - start) / num_steps

    seconds(1)
    start_seconds = time.perf_counter() - began
    num_steps = math.ceil(_SECONDS_A_PIECE / seconds(2))
    num_steps = min(_MAX_STEPS, num_steps)
    return Measured(
        num_rows=config.training.train_batch_size,
        seconds=statistics.median(
            seconds(num_steps) for _ in range(_NUM_PIECES)
        ),
        start_seconds=start_seconds,
        peak_bytes=_peak_bytes(),
    )


def _random_batches(
    config: PretrainingConfig, strategy: "tf.distribute.Strategy"
) -> Any:  # noqa: ANN401 (an iterator that no type names)
    """Makes an iterator over one batch, of a document a row, for ever."""
    import tensorflow as tf

    from electra_tf.pretrain.pretrain_data import Inputs

    shape = (config.training.train_batch_size, config.corpus.max_seq_length)
    first, end = len(SPECIAL_TOKENS), vocab_size(config)
    ids = np.random.default_rng(0).integers(first, end, shape, np.int32)
    rows = Inputs(ids, np.ones_like(ids), np.zeros_like(ids))

    def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
        number = context.get_per_replica_batch_size(shape[0])
        dataset = tf.data.Dataset.from_tensor_slices(rows).repeat()
        return dataset.batch(number, drop_remainder=True)

    return iter(strategy.distribute_datasets_from_function(make))


def count_tokens(config: PretrainingConfig) -> Text:
    """Counts the tokens of a corpus: builds the records of a sample of it.

    Args:
      config: of the corpus and its records, of one length.

    Raises:
      UserError: if there is no corpus, or it cannot be read.
    """
    with console.quiet_imports():
        from electra_tf.data import preparation

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "sample.txt")
        with open(path, "w", encoding="utf-8") as file:
            num_bytes, num_sampled = _write_sample(config.corpus, file)
        sampled = dataclasses.replace(
            config.corpus, corpus=(path,), held_out_fraction=0.0
        )
        run = dataclasses.replace(config.run, data_dir=directory)
        runtime = dataclasses.replace(config.runtime, num_processes=1)
        prepared = preparation.prepare(
            dataclasses.replace(
                config, corpus=sampled, run=run, runtime=runtime
            ),
            log=lambda _: None,
        )
    length = config.corpus.max_seq_length
    num_tokens = prepared.train[length].num_records * length
    return Text(
        num_bytes,
        num_bytes / num_sampled * num_tokens,
        prepared.vocabulary.size,
    )


def _write_sample(config: CorpusConfig, file: IO[str]) -> tuple[float, int]:
    """Writes documents from all over a corpus.

    Returns:
      Bytes of text in the corpus, about, and in the sample.
    """
    found = sources.expand(config.corpus, tfds_data_dir=config.tfds_data_dir)
    chosen = found[:: math.ceil(len(found) / _MAX_SOURCES)]
    num_bytes, total = 0.0, corpus.Statistics()
    for source in chosen:
        size, read = _text_bytes(source), corpus.Statistics()
        for document in corpus.read_documents(
            [source], config, statistics=read, must_have_text=False
        ):
            file.write("\n".join([*document, "", ""]))
            if size and read.text_bytes * len(chosen) >= _SAMPLE_BYTES:
                break
        else:
            size = read.text_bytes  # all of it
        num_bytes += size
        total.add(read)
    corpus.check_text(total)
    if here := sum(source.num_text_bytes for source in chosen):
        num_bytes *= sum(source.num_text_bytes for source in found) / here
    return num_bytes, total.text_bytes


def _text_bytes(source: sources.TextSource) -> float:
    """Returns the bytes of text of a source; 0 if that is not known.

    Differs from `num_text_bytes` in that a compressed file is looked into: how
    much its first megabytes expand.
    """
    path = source.path
    if source.split or not compression.is_compressed(path):
        return source.num_text_bytes
    try:
        with storage.open_binary(path) as packed:
            _, content = compression.decompress(path, packed)
            num_bytes = len(content.read(_EXPANSION_BYTES))
            return storage.size(path) * num_bytes / max(1, packed.tell())
    except compression.ERRORS:  # of which who reads it in earnest tells
        return source.num_text_bytes


def processor() -> str:
    """Returns the name of the processor, and how much of it may be used."""
    name = _proc("cpuinfo", "model name") or platform.machine()
    return f"{name}, {num_cores()} cores"


def _peak_bytes() -> int:
    return int((_proc("self/status", "VmHWM") or "0").split()[0]) * 1024


def _proc(name: str, entry: str) -> str:
    """Returns an entry of a file of Linux's /proc; "" where there is none."""
    try:
        text = (_PROC / name).read_text("utf-8", "replace")
    except OSError:
        return ""
    found = re.search(rf"^{entry}\s*:\s*(.*)$", text, re.MULTILINE)
    return found[1] if found else ""
