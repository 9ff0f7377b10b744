"""A tiny corpus with duplicate documents, and the data sets built from it."""

import itertools
import random
import re

import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import dataset_builder, dataset_files
from electra_tf.data.record_format import parse
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.util import storage

LENGTH = 32
WORDS = tuple(f"w{i}" for i in range(300))
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS))
NUM_COPIES = 20


def _documents():
    """Returns 60 documents of 1 to 100 words, and copies of some of them."""
    rng = random.Random(0)
    documents = [
        [
            " ".join(rng.choices(WORDS, k=rng.randint(1, 9)))
            for _ in range(rng.randint(1, 20))
        ]
        for _ in range(60)
    ]
    copies = [
        [line.upper().replace(" ", "\t") for line in document]
        for document in rng.sample(documents, NUM_COPIES)
    ]
    return rng.sample(documents + copies, 80)


DOCUMENTS = _documents()


def write(directory, documents=DOCUMENTS):
    """Writes documents to two files; returns their corpus configuration."""
    directory.mkdir(exist_ok=True)
    for name, half in (("a", documents[::2]), ("b", documents[1::2])):
        text = "\n\n".join(map("\n".join, half))
        (directory / f"{name}.txt").write_text(text)
    return CorpusConfig(
        corpus=(f"{directory}/*.txt",),
        max_seq_length=LENGTH,
        held_out_fraction=0.1,
    )


def build(config, directory, vocabulary=VOCABULARY, **kwargs):
    """Builds the data sets of a corpus; returns the manifest of the last."""
    return dataset_builder.build(
        config, vocabulary, output_dir=str(directory), **kwargs
    )


def logged_document_counts(log_lines):
    """Returns the numbers of documents that the log of a build reports."""
    progress = re.compile(r"([\d,]+) documents, .* MB/s")
    matches = filter(None, map(progress.match, log_lines))
    return [int(match[1].replace(",", "")) for match in matches]


def contents(directory):
    """Returns the bytes of each file that a build wrote."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def rows_of(paths, length=LENGTH):
    """Returns the token ids of each record of files, without padding."""
    serialized = list(tf.data.TFRecordDataset([str(path) for path in paths]))
    features = parse(tf.stack(serialized), length)
    ids, mask = features["input_ids"].numpy(), features["input_mask"].numpy()
    return [row[keep > 0].tolist() for row, keep in zip(ids, mask, strict=True)]


def stop_after(function, number, error=KeyboardInterrupt):
    """Wraps a function of shards to raise an error after `number` shards."""
    done = []

    def stopping(shard, *args, **kwargs):
        if len(done) == number:
            raise error("stopped")
        done.append(shard)
        return function(shard, *args, **kwargs)

    return stopping


class Killed(BaseException):
    """Ends a process that removes nothing of what it made."""


def kill_at_publication(patch, number):
    """Ends a build at a step of publishing its data sets, like SIGKILL.

    Args:
      patch: a `pytest.MonkeyPatch`.
      number: steps done before: each names a file of records, or writes the
        counts of a data set, which its manifest follows.
    """
    steps = itertools.count()

    def killed(function):
        def step(*args):
            if next(steps) == number:
                patch.setattr(storage, "remove", lambda _: None)
                raise Killed
            function(*args)

        return step

    for module, name in (
        (storage, "move"),
        (dataset_files, "write_unigram_counts"),
    ):
        patch.setattr(module, name, killed(getattr(module, name)))
