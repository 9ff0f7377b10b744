"""Files of a corpus as tests write, compress and read them."""

import bz2
import gzip
import lzma

import pyarrow

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus
from electra_tf.data.sources import expand

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pyarrow.compress(data, "zstd", asbytes=True),
}


def write(path, content, compressed=""):
    """Writes text or bytes, compressed as an ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(COMPRESS.get(compressed, bytes)(content))
    return path


def read(*patterns, sources=None, limits=None, **options):
    """Reads a corpus; returns its documents and statistics.

    Args:
      *patterns: of it.
      sources: in the place of patterns.
      limits: arguments of `read_documents`.
      **options: fields of the configuration.
    """
    config, statistics = CorpusConfig(**options), corpus.Statistics()
    sources = sources or expand(
        map(str, patterns), tfds_data_dir=config.tfds_data_dir
    )
    documents = corpus.read_documents(
        sources, config, statistics=statistics, **limits or {}
    )
    return list(documents), statistics
