"""A tiny encoder on disk, shared by all tests of Keras models."""

import pytest
import tiny_finetuning as tiny


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("data")
    tiny.write_model(data_dir)
    return str(data_dir / "models/tiny")
