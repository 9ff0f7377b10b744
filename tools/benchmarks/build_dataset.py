r"""Measures the speed of building records from text; prints JSON lines.

    python tools/benchmarks/build_dataset.py --corpus="books/*.txt" \
        --vocab_file=vocab.txt
    python tools/benchmarks/build_dataset.py --corpus="books/*.txt" \
        --vocab_file=vocab.txt --measure=build --copies=1,10 --rounds=1

A sample of the corpus, as plain text, is processed in alternation, several
times, by:

  build: the whole build, from the file to the records: reading, tokenizing,
    packing, writing; in one process on one core.
  build_2: the same by two processes on two cores.
  tokenize: our tokenizer alone on one core, with the lines in memory.
  tokenize_rust: the same by `BertWordPieceTokenizer`, the Rust tokenizer of
    Hugging Face's `tokenizers`; needs the extra [bench].

Each measurement is made in a fresh process, after it has imported its packages
and read the vocabulary; the two processes of `build_2` do so within the time.
Other processes disturb wall-clock time, but hardly CPU seconds (of all
processes and threads) and the peak memory of the largest process. MB are 10^6
bytes of text.
"""

import collections
import dataclasses
import functools
import importlib.util
import itertools
import json
import multiprocessing
import os
import pathlib
import platform
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, NamedTuple

import checks
import machine
from reports import spread

from electra_tf.config.corpus import CorpusConfig
from electra_tf.util import batching, config_flags, console, signals
from electra_tf.util.config_fields import require
from electra_tf.util.errors import UserError

_PACKAGES = ("electra_tf", "tensorflow", "tensorflow-text", "tokenizers")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
    """What to measure, and on which text."""

    corpus: CorpusConfig = CorpusConfig()

    num_bytes: int = 50_000_000
    """Size of the sample, documents from the whole corpus, in bytes; 0 for
    all."""

    copies: tuple[int, ...] = (1,)
    """How often the text is repeated; each number is measured. Shows whether
    memory grows with the text."""

    rounds: int = 5
    """Number of measurements of each."""

    measure: tuple[str, ...] = ()
    """What to measure: build, build_2, tokenize, tokenize_rust. Default:
    all."""

    def __post_init__(self) -> None:
        require(self, "num_bytes", "at least 0", lambda n: n >= 0)
        require(self, "rounds", "at least 1", lambda n: n >= 1)
        checks.require_counts(self, "copies")
        if not self.corpus.corpus or not self.corpus.vocab_file:
            raise UserError(
                "`corpus` and `vocab_file` must be given. Received: "
                f"corpus={','.join(self.corpus.corpus)!r}, "
                f"vocab_file={self.corpus.vocab_file!r}."
            )
        checks.require_known(self, "measure", _KINDS)


class Used(NamedTuple):
    """Time and memory that some work took."""

    seconds: float
    cpu_seconds: float
    peak_memory: float


class _Kind(NamedTuple):
    """Something to measure."""

    prepare: Callable[[CorpusConfig], Callable[[], object]]
    num_cores: int


@signals.interruptible(is_resumable=False)
def main(config: BenchmarkConfig) -> None:
    """Measures all kinds in alternation, and prints the figures."""
    names = config.measure or tuple(_KINDS)
    if "tokenize_rust" in names and not importlib.util.find_spec("tokenizers"):
        console.warn("tokenize_rust is left out: it needs the extra [bench].")
        names = tuple(name for name in names if name != "tokenize_rust")
    used: dict[tuple[int, str], list[Used]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        text = os.path.join(scratch, "text.txt")
        _in_process(_write_sample, config.corpus, config.num_bytes, text)
        files = {number: _repeat(text, number) for number in config.copies}
        sizes = {n: os.path.getsize(path) for n, path in files.items()}
        works = list(itertools.product(config.copies, names))
        for _, work in itertools.product(range(config.rounds), works):
            number, kind = work[0], _KINDS[work[1]]
            corpus = dataclasses.replace(config.corpus, corpus=(files[number],))
            used[work].append(
                _in_process(_measure, kind, corpus, num_cores=kind.num_cores)
            )
    for number, name in works:
        report = _report(name, sizes[number], used[number, name])
        print(json.dumps(report))


def _in_process(
    function: Callable,
    *arguments: object,
    num_cores: int = 0,
) -> Any:  # noqa: ANN401 (whatever the function returns)
    """Calls a function in a fresh process, and returns its result."""
    context = multiprocessing.get_context("spawn")
    pool = futures.ProcessPoolExecutor(1, context, _use_cores, (num_cores,))
    with pool:
        return pool.submit(function, *arguments).result()


def _use_cores(num_cores: int) -> None:
    if num_cores and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:num_cores])


def _write_sample(config: CorpusConfig, num_bytes: int, path: str) -> None:
    """Writes documents of a corpus to a plain text file."""
    with console.quiet_imports():
        from electra_tf.data import corpus, vocabularies
        from electra_tf.data.sources import expand
    documents = corpus.read_documents(
        expand(config.corpus, tfds_data_dir=config.tfds_data_dir),
        config,
        statistics=corpus.Statistics(),
    )
    if num_bytes:
        documents = vocabularies.sample(documents, num_bytes)
    with open(path, "w", encoding="utf-8") as file:
        for lines in documents:
            file.write("\n".join([*lines, "", ""]))


def _repeat(path: str, number: int) -> str:
    """Writes a file beside the given one, with its text repeated."""
    repeated = pathlib.Path(path).with_stem(f"text-{number}")
    with open(repeated, "wb") as file:
        for _ in range(number):
            with open(path, "rb") as text:
                shutil.copyfileobj(text, file)
    return str(repeated)


def _measure(kind: _Kind, config: CorpusConfig) -> Used:
    work = kind.prepare(config)
    before = _used()
    work()
    after = _used()
    return Used(
        after.seconds - before.seconds,
        after.cpu_seconds - before.cpu_seconds,
        after.peak_memory,
    )


def _used() -> Used:
    """Returns the time and memory that this process has used so far."""
    usages = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return Used(
        time.perf_counter(),
        sum(usage.ru_utime + usage.ru_stime for usage in usages),
        max(usage.ru_maxrss for usage in usages) / 2**10,
    )


def _build(config: CorpusConfig, *, num_processes: int) -> Callable[[], object]:
    with console.quiet_imports():
        from electra_tf.data import dataset_builder, runners, vocabularies
    vocabulary = vocabularies.open_vocabulary(config, config.vocab_file)

    def work() -> None:
        with tempfile.TemporaryDirectory() as output_dir:
            dataset_builder.build(
                config,
                vocabulary,
                output_dir=output_dir,
                runner=runners.LocalRunner(num_processes),
            )

    return work


def _tokenize(config: CorpusConfig) -> Callable[[], object]:
    with console.quiet_imports():
        import tensorflow as tf

        from electra_tf.data import vocabularies
        from electra_tf.model import graph_tokenization
    tokenizer = graph_tokenization.make_tokenizer(
        vocabularies.open_vocabulary(config, config.vocab_file),
        config.do_lower_case,
        config.strip_accents,
    )
    tokenize = tf.function(
        tokenizer.tokenize,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )

    def ids(batch: list[str]) -> object:
        return tokenize(tf.constant(batch)).values.numpy()

    return _over_batches(ids, config)


def _tokenize_rust(config: CorpusConfig) -> Callable[[], object]:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import tokenizers

    tokenizer = tokenizers.BertWordPieceTokenizer(
        config.vocab_file,
        lowercase=config.do_lower_case,
        strip_accents=config.do_lower_case and config.strip_accents,
    )
    # Without offsets, which takes less time than `encode_batch`.
    encode = tokenizer._tokenizer.encode_batch_fast

    def ids(batch: list[str]) -> object:
        return [row.ids for row in encode(batch, add_special_tokens=False)]

    return _over_batches(ids, config)


def _over_batches(
    function: Callable[[list[str]], object], config: CorpusConfig
) -> Callable[[], object]:
    """Returns the work of calling a function with all lines, in batches."""
    batches = list(_batches(config.corpus[0]))
    function(batches[0][:1])  # excludes one-time initialization

    def work() -> None:
        for batch in batches:
            function(batch)

    return work


def _batches(path: str) -> Iterator[list[str]]:
    with open(path, encoding="utf-8", newline="\n") as file:
        lines = filter(None, map(str.strip, file))
        yield from batching.batches(lines, size=len, enough=2**20)


def _report(name: str, num_bytes: int, used: list[Used]) -> dict:
    seconds, cpu_seconds, peaks = zip(*used, strict=True)
    megabytes = num_bytes / 1e6
    return {
        "benchmark": "build_dataset",
        "measured": name,
        "python": platform.python_version(),
        **machine.versions(*_PACKAGES),
        "machine": platform.machine(),
        "cores": machine.num_cores(),
        "cores_used": _KINDS[name].num_cores,
        "bytes": num_bytes,
        "rounds": len(used),
        "seconds": spread(seconds),
        "cpu_seconds": spread(cpu_seconds),
        "megabytes_per_second": spread([megabytes / x for x in seconds]),
        "megabytes_per_cpu_second": spread(
            [megabytes / x for x in cpu_seconds]
        ),
        "peak_memory_mib": spread(peaks),
    }


_KINDS = {
    "build": _Kind(functools.partial(_build, num_processes=1), 1),
    "build_2": _Kind(functools.partial(_build, num_processes=2), 2),
    "tokenize": _Kind(_tokenize, 1),
    "tokenize_rust": _Kind(_tokenize_rust, 1),
}


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
