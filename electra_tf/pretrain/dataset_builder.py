"""From a corpus to a data set: TFRecord files and a manifest.

The records depend on the text, the vocabulary, the settings and `data_seed`
alone, not on the number of threads, nor on how documents lie in files. Memory
does not grow with the corpus.
"""

import collections
import contextlib
import dataclasses
import hashlib
import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import tensorflow as tf

from electra_tf.configure_corpus import CorpusConfig
from electra_tf.model.graph_tokenization import GraphTokenizer
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import corpus
from electra_tf.pretrain.example_builder import Example, ExampleBuilder
from electra_tf.pretrain.record_format import (
    FORMAT_VERSION,
    HELD_OUT,
    MANIFEST,
    TRAIN,
    ShardWriter,
    find_data_set,
    find_unfinished,
    serialize,
)
from electra_tf.util import files
from electra_tf.util.errors import UserError

SHARD_BYTES = 16 * 2**20  # a shard is about as large as its text
MAX_SHARDS = 512  # all are open at once
ORIGINAL_MAX_CHARACTERS = 2**24  # the original never cuts a document
BATCH_CHARACTERS = 2**20  # text that is tokenized at once
MAX_THREADS = 8

Progress = Callable[[int, int], None]
Item = TypeVar("Item")
Result = TypeVar("Result")


class Document(NamedTuple):
    """A document on its way to a split.

    Attributes:
      lines: its text.
      key: 128 bits made from its text and `data_seed`, the source of its
        random choices; the documents with the smallest keys are held out.
      split: "train" or "held_out".
    """

    lines: list[str]
    key: int
    split: str


Tokenized = tuple[Document, list[list[int]]]  # with the ids of its lines


def build(
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    output_dir: str,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Builds the data set of a corpus.

    An older data set stays as it is until the new one is complete.

    Args:
      config: the corpus and how to pack it.
      vocabulary: of its tokens.
      output_dir: where the files go.
      overwrite: whether to replace a data set that lies there.
      progress: called with the numbers of documents and of text bytes read.

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
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(_remove_unfinished, output_dir)
            writers = {
                split: stack.enter_context(ShardWriter(output_dir, split, n))
                for split, n in _numbers_of_shards(config, sources).items()
            }
            counts = _write(config, vocabulary, sources, writers, progress)
            manifest = _settings(config, vocabulary) | {"counts": counts}
            _publish(output_dir, manifest, writers.values())
            return manifest
    except (OSError, tf.errors.ResourceExhaustedError) as error:
        raise UserError(
            f"The data set could not be written to {output_dir}: {error}"
        ) from error


def split_documents(
    documents: Iterable[list[str]], *, held_out_fraction: float, seed: int
) -> Iterator[Document]:
    """Assigns documents to the splits, equal ones to the same.

    If there are two different documents at least one is held out: the one with
    the smallest key waits until it is known whether another one is.

    Args:
      documents: the lines of each.
      held_out_fraction: share of the documents to hold out; 0 for none.
      seed: `data_seed`.

    Yields:
      The documents, in order but for those that had to wait.
    """
    threshold = held_out_fraction * 2**128
    waiting: list[Document] = []  # copies of one document
    splits = set()
    for lines in documents:
        document = Document(lines, _key(lines, seed), TRAIN)
        if document.key < threshold:
            released = [document._replace(split=HELD_OUT)]
        elif not threshold or (waiting and document.key > waiting[0].key):
            released = [document]
        elif waiting and document.key == waiting[0].key:
            released = []
            waiting.append(waiting[0])
        else:
            released, waiting = waiting, [document]
        splits.update(document.split for document in released)
        yield from released
    split = HELD_OUT if splits == {TRAIN} else TRAIN
    yield from (document._replace(split=split) for document in waiting)


def _key(lines: list[str], seed: int) -> int:
    content = "\n".join(lines).encode()
    digest = hashlib.blake2b(
        content, digest_size=16, key=str(seed).encode()
    ).digest()
    return int.from_bytes(digest)


def _numbers_of_shards(
    config: CorpusConfig, sources: list[corpus.Source]
) -> dict[str, int]:
    num_bytes = sum(source.num_text_bytes for source in sources)
    num_train = config.num_shards or min(
        MAX_SHARDS, 1 + num_bytes // SHARD_BYTES
    )
    num_held_out = max(1, round(num_train * config.held_out_fraction))
    return {TRAIN: num_train, HELD_OUT: num_held_out}


def _write(
    config: CorpusConfig,
    vocabulary: Vocabulary,
    sources: list[corpus.Source],
    writers: dict[str, ShardWriter],
    progress: Progress | None,
) -> dict[str, Any]:
    """Writes the records of all documents; returns the manifest's counts."""
    statistics = corpus.Statistics()
    documents = split_documents(
        corpus.documents(
            sources,
            blanks_separate_docs=config.blanks_separate_docs,
            statistics=statistics,
            max_characters=(
                ORIGINAL_MAX_CHARACTERS
                if config.original_packing
                else corpus.MAX_DOCUMENT_CHARACTERS
            ),
            options=corpus.Options.of(config),
        ),
        held_out_fraction=config.held_out_fraction,
        seed=config.data_seed,
    )
    packer = _Packer(config, vocabulary, writers)
    for document, lines in _tokenize(documents, config, vocabulary):
        packer.add(document, lines)
        if progress:
            progress(statistics.documents, statistics.text_bytes)
    for writer in writers.values():
        writer.close()
    if not writers[TRAIN].num_records:
        raise UserError(
            "The corpus must give at least one record for training. Received: "
            f"{statistics.documents} document(s) with {packer.num_tokens} "
            f"token(s), held_out_fraction={config.held_out_fraction}."
        )
    return dataclasses.asdict(statistics) | packer.counts()


def _tokenize(
    documents: Iterable[Document], config: CorpusConfig, vocabulary: Vocabulary
) -> Iterator[Tokenized]:
    """Tokenizes documents, many at once."""
    tokenizer = GraphTokenizer(
        vocabulary, config.do_lower_case, config.strip_accents
    )
    tokenize = tf.function(
        tokenizer.tokenize, input_signature=[tf.TensorSpec([None], tf.string)]
    )

    def tokenize_batch(batch: list[Document]) -> list[Tokenized]:
        text = [line for document in batch for line in document.lines]
        ragged = tokenize(tf.constant(text))
        ids = ragged.values.numpy().tolist()
        splits = ragged.row_splits.numpy().tolist()
        lines = (ids[start:end] for start, end in itertools.pairwise(splits))
        return [
            (document, list(itertools.islice(lines, len(document.lines))))
            for document in batch
        ]

    for tokenized in _map_ahead(tokenize_batch, _batch(documents)):
        yield from tokenized


def _batch(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Joins documents to batches of about `BATCH_CHARACTERS`."""
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += sum(map(len, document.lines))
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _map_ahead(
    function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Maps in order, with a bounded number of items in work in threads."""
    num_threads = min(MAX_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(num_threads) as pool:
        pending: collections.deque = collections.deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > num_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


class _Packer:
    """Writes the examples of documents and counts what becomes of the text.

    Attributes:
      num_tokens: tokens of the text.
    """

    def __init__(
        self,
        config: CorpusConfig,
        vocabulary: Vocabulary,
        writers: dict[str, ShardWriter],
    ) -> None:
        self.num_tokens = 0
        self._num_kept = 0
        self._num_special = 0
        self._num_without_tokens = 0
        self._num_held_out = 0
        self._max_seq_length = config.max_seq_length
        self._vocabulary = vocabulary
        self._writers = writers
        self._original_builders = {}
        if config.original_packing:
            self._original_builders = {
                split: ExampleBuilder(
                    config.max_seq_length,
                    random.Random(config.data_seed),
                    carry=False,
                )
                for split in writers
            }

    def add(self, document: Document, lines: list[list[int]]) -> None:
        """Packs and writes a document, given the ids of its lines."""
        builder = self._original_builders.get(document.split)
        if builder is None:
            rng = random.Random(document.key)
            builder = ExampleBuilder(self._max_seq_length, rng)
        for ids in lines:
            self._write(builder.add_line(ids), document.split)
        self._write(builder.end_document(), document.split)
        num_tokens = sum(map(len, lines))
        self.num_tokens += num_tokens
        self._num_without_tokens += not num_tokens
        self._num_held_out += document.split == HELD_OUT

    def _write(self, examples: list[Example], split: str) -> None:
        for example in examples:
            self._writers[split].write(
                serialize(example, self._max_seq_length, self._vocabulary)
            )
            self._num_kept += len(example.first) + len(example.second)
            self._num_special += 3 if example.second else 2

    def counts(self) -> dict[str, Any]:
        """Returns the manifest's counts."""
        num_records = sum(w.num_records for w in self._writers.values())
        num_slots = num_records * self._max_seq_length
        num_padding = num_slots - self._num_kept - self._num_special
        return {
            "held_out_documents": self._num_held_out,
            "documents_without_tokens": self._num_without_tokens,
            "tokens_read": self.num_tokens,
            "tokens_kept": self._num_kept,
            "tokens_dropped": self.num_tokens - self._num_kept,
            "padding_share": round(num_padding / num_slots, 6),
            "records": num_records,
            "held_out_records": self._writers[HELD_OUT].num_records,
        }


def _settings(config: CorpusConfig, vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "vocab_sha256": vocabulary.sha256,
        "vocab_size": vocabulary.size,
        "do_lower_case": config.do_lower_case,
        "strip_accents": config.strip_accents,
        "max_seq_length": config.max_seq_length,
        "packing": "original" if config.original_packing else "carry",
        "blanks_separate_docs": config.blanks_separate_docs,
        "held_out_fraction": config.held_out_fraction,
        "data_seed": config.data_seed,
        "corpus": list(config.corpus),
    }


def _publish(
    output_dir: str, manifest: dict[str, Any], writers: Iterable[ShardWriter]
) -> None:
    """Puts the complete data set in the place of an older one."""
    _remove(find_data_set(output_dir))
    try:
        manifest["files"] = [
            entry for writer in writers for entry in writer.publish()
        ]
        files.write_json(os.path.join(output_dir, MANIFEST), manifest)
    except BaseException:
        _remove(find_data_set(output_dir))
        raise


def _remove_unfinished(directory: str) -> None:
    _remove(find_unfinished(directory))


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        os.remove(path)
