"""Prepared data sets are read; a missing one is named, never downloaded."""

import prepared_datasets
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from corpora import read

from electra_tf.data.sources import expand
from electra_tf.util.errors import UserError

TEXTS = {
    "train": [f"title {i}\n\nline {i} ☃\n" for i in range(9)],
    "test": ["other"],
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tfds")
    for version in ("1.0.0", "1.10.0", "1.9.0"):
        year = int(version[2:-2])
        prepared_datasets.store(
            directory,
            f"books/plain/{version}",
            {"text": tfds.features.Text(), "year": tf.int64},
            {
                split: {"text": texts, "year": [year] * len(texts)}
                for split, texts in TEXTS.items()
            },
        )
    return str(directory)


def expand_and_read(pattern, data_dir, **options):
    sources = expand([pattern], tfds_data_dir=data_dir)
    return *read(sources=sources, **options), sources


def test_an_example_is_a_document(data_dir):
    documents, statistics, sources = expand_and_read(
        "tfds:books/plain", data_dir
    )
    assert documents == [[f"title {i}", f"line {i} ☃"] for i in range(9)]
    assert statistics.files == 1
    assert sources[0].path.endswith("books/plain/1.10.0")
    assert sources[0].num_text_bytes > 9 * 10


def test_version_and_split_can_be_named(data_dir):
    documents, _, sources = expand_and_read(
        "tfds:books/plain/1.9.0:test", data_dir
    )
    assert documents == [["other"]]
    assert sources[0].path.endswith("1.9.0")
    half, _, _ = expand_and_read("tfds:books/plain:train[:3]", data_dir)
    assert [document[0] for document in half] == [
        f"title {i}" for i in range(3)
    ]


@pytest.mark.parametrize(
    "name", ["wiki40b/en", "books", "", "books/plain/2.0.0"]
)
def test_a_data_set_that_is_not_there_is_never_downloaded(data_dir, name):
    with pytest.raises(UserError, match="prepared.*nothing is downloaded"):
        expand([f"tfds:{name}"], tfds_data_dir=data_dir)


@pytest.mark.parametrize("name", ["../books", "books/../../x", "/books"])
def test_a_data_set_lies_in_the_directory_of_data_sets(data_dir, name):
    with pytest.raises(UserError, match=f"inside {data_dir}. Received.*{name}"):
        expand([f"tfds:{name}"], tfds_data_dir=data_dir)


def test_the_default_directory_is_that_of_tfds(data_dir, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", data_dir)
    assert expand_and_read("tfds:books/plain:test", "")[0] == [["other"]]


def test_an_unknown_split_is_named(data_dir):
    with pytest.raises(UserError, match="books/plain:dev.*train"):
        expand(["tfds:books/plain:dev"], tfds_data_dir=data_dir)


@pytest.mark.parametrize("field", ["year", "body"])
def test_the_text_field_must_hold_texts(data_dir, field):
    with pytest.raises(UserError, match=f"text_field='{field}'"):
        expand_and_read("tfds:books/plain", data_dir, text_field=field)
