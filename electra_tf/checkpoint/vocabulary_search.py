"""Finds the vocabulary of a bundle, which holds only arrays.

A run trains with the vocabulary that its configuration names, which need not be
the only one in its data directory, and stores its digest.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from electra_tf.config.corpus import VOCABULARY_FILES, CorpusConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import fingerprints, storage
from electra_tf.util.config_fields import check_types
from electra_tf.util.config_files import CONFIG_FILE
from electra_tf.util.errors import UserError

_FIELDS = ("tokenizer", "vocab_file", "pad_vocab_to_multiple")


def find(
    directory: storage.Path, settings: Mapping[str, Any]
) -> Vocabulary | None:
    """Finds the vocabulary of the bundles in a directory."""
    settings = {name: settings[name] for name in _FIELDS if name in settings}
    try:
        check_types(CorpusConfig, settings)
        corpus = CorpusConfig(**settings)
    except UserError as error:
        raise UserError(f"{directory / CONFIG_FILE}: {error}") from error
    default_name = corpus.default_vocab_name
    names = [default_name] if settings else [*VOCABULARY_FILES.values()]
    digest, others = fingerprints.stored(directory).get("vocabulary"), []
    for path in _places(directory, names, corpus.vocab_file):
        if not storage.exists(path):
            continue
        found = Vocabulary.from_file(str(path))
        trained_with = found.padded(corpus.pad_vocab_to_multiple)
        if digest in (None, trained_with.sha256):
            return found
        others.append(str(path))
    if others:
        raise UserError(
            f"The vocabulary of {directory} must be the one it was trained "
            f"with, whose digest is in its {fingerprints.FILE_NAME}. Received: "
            f"{', '.join(others)}, with other tokens. Copy the right one to "
            f"{directory / default_name}, or, except in "
            "pre-training, name it with --vocab_file."
        )
    return None


def _places(
    directory: storage.Path, names: list[str], vocab_file: str
) -> Iterator[storage.Path]:
    """Yields the paths that a vocabulary may have, the likeliest first."""
    yield from (directory / name for name in names)
    if vocab_file:
        yield storage.as_path(vocab_file)
        names = [os.path.basename(vocab_file)]
    if directory.parent.name == "models":
        yield from (directory.parent.parent / name for name in names)
