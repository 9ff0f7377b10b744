"""The corpus that builds are tested on, and its data set, made once."""

import pytest
import tiny_corpus

from electra_tf.data import shards


@pytest.fixture(scope="session")
def config(tmp_path_factory):
    """The configuration of the corpus."""
    return tiny_corpus.write(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def small_shards(monkeypatch):
    """Many shards of a corpus."""
    monkeypatch.setattr(shards, "SHARD_BYTES", 4000)


@pytest.fixture(scope="session")
def built(config, tmp_path_factory):
    """The data set of `config`; tests leave it as it is."""
    directory = tmp_path_factory.mktemp("built")
    tiny_corpus.build(config, directory)
    return directory
