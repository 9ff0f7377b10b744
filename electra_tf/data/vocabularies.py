"""Learns and opens the vocabulary that the configuration of a corpus names."""

import contextlib
import heapq
import itertools
import os
import time
from collections.abc import Iterable, Iterator

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, held_out
from electra_tf.data.build_log import Log
from electra_tf.data.corpus import TextSource, expand
from electra_tf.data.vocabulary_learner import MIN_COUNT, learn_vocabulary
from electra_tf.model import sentencepiece_model
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console, files, storage
from electra_tf.util.errors import UserError
from electra_tf.util.locks import lock_directory

_WHY_FEWER_TOKENS = {
    "wordpiece": f"no other piece occurs at least {MIN_COUNT} times",
    "sentencepiece": "SentencePiece finds no other pieces",
}


def open_vocabulary(config: CorpusConfig, path: str) -> Vocabulary:
    """Opens a vocabulary and checks it against a configuration."""
    vocabulary = Vocabulary.from_file(path)
    _check(vocabulary, config, path)
    return vocabulary.padded(config.pad_vocab_to_multiple)


def _check(vocabulary: Vocabulary, config: CorpusConfig, path: str) -> None:
    """Checks a vocabulary against a configuration."""
    if vocabulary.sentencepiece:
        _check_normalization(vocabulary, config, path)
    limit = config.vocab_size
    if limit and vocabulary.size > limit:
        raise UserError(
            f"`vocab_size` must be at least {vocabulary.size}, the tokens of "
            f"{path}. Received: vocab_size={limit}. Leave it out to take the "
            "file as it is, or name another --vocab_file."
        )


def copy_vocabulary(
    vocabulary: Vocabulary,
    config: CorpusConfig,
    vocab_file: str,
    *,
    log: Log = console.say,
) -> None:
    """Writes the vocabulary of `init_checkpoint` for a run on its weights."""
    if vocabulary.kind != config.tokenizer:
        raise UserError(
            f"`tokenizer` must be {vocabulary.kind}, that of the vocabulary of "
            f"--init_checkpoint. Received: tokenizer={config.tokenizer}. Set "
            f"--tokenizer={vocabulary.kind}; or name another vocabulary with "
            "--vocab_file, which is learned if it does not exist."
        )
    _check(vocabulary, config, "the vocabulary of --init_checkpoint")
    with _claimed(vocab_file):
        files.atomic_write_bytes(vocab_file, vocabulary.content)
    log(
        f"Copied the vocabulary of --init_checkpoint, {vocabulary.size:,} "
        f"tokens: {vocab_file}. For another, name it with --vocab_file; it is "
        "learned if it does not exist."
    )


def build_vocabulary(
    config: CorpusConfig,
    vocab_file: str,
    *,
    leave_out: Iterable[str] = (),
    log: Log = console.say,
) -> Vocabulary:
    """Learns the vocabulary of a corpus and writes it."""
    with _claimed(vocab_file):
        sources = expand(
            config.corpus,
            tfds_data_dir=config.tfds_data_dir,
            leave_out=leave_out,
        )
        return _learn_and_write(sources, config, vocab_file, log=log)


@contextlib.contextmanager
def _claimed(vocab_file: str) -> Iterator[None]:
    """Locks a vocabulary that is to be written; it must not exist."""
    _check_free(vocab_file)
    directory, name = os.path.split(vocab_file)
    files.ensure_writable(directory or ".")
    way_out = "name another --vocab_file"
    with lock_directory(directory or ".", f".{name}.lock", way_out):
        _check_free(vocab_file)  # one may have been written meanwhile
        yield


def _check_free(vocab_file: str) -> None:
    if vocab_file.endswith("/") or storage.is_directory(vocab_file):
        raise UserError(
            "`vocab_file` must be a file. Received: vocab_file="
            f"{vocab_file!r}, a directory. Name a file in it."
        )
    if storage.exists(vocab_file):
        raise UserError(
            "A vocabulary is never overwritten, as data sets and models depend "
            f"on it. Received: vocab_file={vocab_file!r}, which exists. Name "
            "another file or delete it."
        )


def _learn_and_write(
    sources: list[TextSource],
    config: CorpusConfig,
    vocab_file: str,
    *,
    log: Log,
) -> Vocabulary:
    vocab_size = config.target_vocab_size
    log(f"Learning a {config.tokenizer} vocabulary of {vocab_size:,} tokens.")
    start = time.monotonic()
    progress = console.Periodic(log)
    statistics = corpus.Statistics()
    documents = _read(sources, config, statistics, progress=progress)
    if config.vocab_sample_bytes:
        documents = sample(documents, config.vocab_sample_bytes)
    lines: Iterable[str] = itertools.chain.from_iterable(documents)
    content = _learn(lines, config, vocab_size, log=log, progress=progress)
    files.atomic_write_bytes(vocab_file, content)
    vocabulary = Vocabulary.from_file(vocab_file)
    if num_missing := max(0, vocab_size - vocabulary.size):
        _log_missing(num_missing, config, statistics.text_bytes, log)
    rate = console.format_speed(statistics.text_bytes, start)
    log(f"Learned {vocabulary.size:,} tokens from {rate}: {vocab_file}")
    return vocabulary


def _log_missing(
    number: int, config: CorpusConfig, num_bytes: int, log: Log
) -> None:
    """Logs why there are fewer tokens than asked for, and what gives more."""
    text, more = "this text", "Give more text"
    if 0 < config.vocab_sample_bytes < num_bytes:
        text = f"{config.vocab_sample_bytes:,} of {num_bytes:,} bytes of text"
        more = "Set a larger --vocab_sample_bytes"
    log(
        f"{number:,} tokens fewer than `vocab_size`: "
        f"{_WHY_FEWER_TOKENS[config.tokenizer]} in {text}. {more}, or a "
        "smaller --vocab_size."
    )


def _read(
    sources: list[TextSource],
    config: CorpusConfig,
    statistics: corpus.Statistics,
    *,
    progress: console.Periodic,
) -> Iterator[list[str]]:
    """Yields the documents of a corpus and logs the progress."""
    total = sum(source.num_text_bytes for source in sources)
    start = time.monotonic()

    def text() -> str:
        rate = console.format_speed(statistics.text_bytes, start)
        of = f", of about {total / 1e6:,.1f} MB" if total else ""
        return f"Reading: {statistics.documents:,} documents, {rate}{of}"

    for document in corpus.read_documents(
        sources, config, statistics=statistics
    ):
        progress(text)
        yield document


def sample(
    documents: Iterable[list[str]], num_bytes: int
) -> Iterator[list[str]]:
    """Samples documents by a hash of their text, whatever their order."""
    chosen: list[tuple[int, int, int, list[str]]] = []  # largest key first
    total, limit = 0, 2**128
    for number, lines in enumerate(documents):
        key = held_out.document_key(lines, seed=0)
        if key >= limit:
            continue
        size = sum(len(line.encode()) + 1 for line in lines)
        heapq.heappush(chosen, (-key, number, size, lines))
        total += size
        while total > num_bytes and len(chosen) > 1:
            limit, _, size, _ = heapq.heappop(chosen)
            limit, total = -limit, total - size
    for *_, lines in sorted(chosen, key=lambda item: item[1]):
        yield lines


def _learn(
    lines: Iterable[str],
    config: CorpusConfig,
    size: int,
    *,
    log: Log,
    progress: console.Periodic,
) -> bytes:
    """Learns a vocabulary; returns the content of its file."""
    settings = {
        "vocab_size": size,
        "do_lower_case": config.do_lower_case,
        "strip_accents": config.strip_accents,
    }
    if config.tokenizer == "sentencepiece":
        model_type = config.sentencepiece_model_type
        return sentencepiece_model.learn(
            lines, model_type=model_type, **settings
        )
    tokens = learn_vocabulary(lines, log=log, progress=progress, **settings)
    return "".join(f"{token}\n" for token in tokens).encode()


def _check_normalization(
    vocabulary: Vocabulary, config: CorpusConfig, path: str
) -> None:
    """Checks that a model normalizes letter case and accents as configured."""
    found = sentencepiece_model.normalization(vocabulary.sentencepiece)
    strip_accents = config.do_lower_case and config.strip_accents
    if found != (config.do_lower_case, strip_accents):
        lower = "" if found.do_lower_case else "no"
        strip = "" if found.strip_accents else "no"
        raise UserError(
            "A SentencePiece model must normalize letter case and accents as "
            f"the flags say. Received: {os.path.basename(path)} with "
            f"do_lower_case={found.do_lower_case}, "
            f"strip_accents={found.strip_accents}; flags "
            f"do_lower_case={config.do_lower_case}, "
            f"strip_accents={config.strip_accents}. Set --{lower}do_lower_case "
            f"--{strip}strip_accents, or learn another model."
        )
