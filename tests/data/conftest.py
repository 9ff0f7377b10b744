"""The tiny corpus that builds are tested on, and its data set."""

import pytest
import tiny_corpus

from electra_tf.data import shards
from electra_tf.util import locks


@pytest.fixture(scope="session")
def config(tmp_path_factory):
    """Configuration of the tiny corpus."""
    return tiny_corpus.write(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def small_shards(monkeypatch):
    """Makes a build cut the corpus into many small shards."""
    monkeypatch.setattr(shards, "SHARD_BYTES", 4000)


@pytest.fixture(params=["", "ram://"], ids=["here", "store"])
def root(request, tmp_path, monkeypatch):
    """A directory here or in a store, whose locks are quick."""
    for name, seconds in (("REFRESH", 0.1), ("SETTLE", 0.0), ("POLL", 0.02)):
        monkeypatch.setattr(locks, f"_{name}_SECONDS", seconds)
    return f"{request.param}{tmp_path}"


@pytest.fixture(scope="session")
def built(config, tmp_path_factory):
    """The data set of `config`, built once; tests must not change it."""
    directory = tmp_path_factory.mktemp("built")
    tiny_corpus.build(config, directory)
    return directory
