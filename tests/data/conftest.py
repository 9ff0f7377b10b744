"""The tiny corpus that builds are tested on, and its data set."""

import pytest
import tiny_corpus

from electra_tf.data import build


@pytest.fixture(scope="session")
def config(tmp_path_factory):
    """Configuration of the tiny corpus."""
    return tiny_corpus.write(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def small_shards(monkeypatch):
    """Makes a build cut the corpus into many small shards."""
    monkeypatch.setattr(build, "SHARD_BYTES", 4000)


@pytest.fixture(scope="session")
def built(config, tmp_path_factory):
    """The data set of `config`, built once; tests must not change it."""
    directory = tmp_path_factory.mktemp("built")
    tiny_corpus.build(config, directory)
    return directory
