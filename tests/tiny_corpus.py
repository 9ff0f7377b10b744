"""A tiny corpus with duplicate documents, and the data sets built from it."""

import random

import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import build as build_lib
from electra_tf.data.records import parse
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary

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
    return build_lib.build_records(
        config, vocabulary, output_dir=str(directory), **kwargs
    )


def contents(directory):
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.name != ".lock"
    }


def rows_of(paths, length=LENGTH):
    """Returns the token ids of each record of files, without padding."""
    serialized = list(tf.data.TFRecordDataset([str(path) for path in paths]))
    features = parse(tf.stack(serialized), length)
    ids, mask = features["input_ids"].numpy(), features["input_mask"].numpy()
    return [row[keep > 0].tolist() for row, keep in zip(ids, mask, strict=True)]
