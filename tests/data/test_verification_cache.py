"""Damaged caches are ignored, and failing to write one is no error."""

import errno
import json
import os

import pytest

from electra_tf.data import verification_cache
from electra_tf.data.scanner import Contents
from electra_tf.data.verification_cache import CACHE_FILE, CacheEntry
from electra_tf.util import files, storage, store_requests

CONTENTS = Contents(5, 16, [12, 1, 1])


@pytest.fixture
def kept(tmp_path):
    """The entries of two files in `tmp_path`, by the path of the file."""
    entries_by_path = {}
    for name in ("a", "b"):
        path = tmp_path / name
        path.write_bytes(b"records")
        entries_by_path[str(path)] = CacheEntry(
            storage.identity(str(path)), CONTENTS
        )
    verification_cache.add(str(tmp_path), entries_by_path)
    return entries_by_path


def test_verifications_are_found_where_they_were_added(kept, tmp_path):
    assert verification_cache.read(str(tmp_path)) == kept
    assert verification_cache.read(str(tmp_path / "elsewhere")) == {}
    assert sorted(storage.glob(f"{tmp_path}/*")) == sorted(kept)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", CACHE_FILE}


def test_verifications_are_added_to_those_that_are_there(kept, tmp_path):
    (tmp_path / "c").write_bytes(b"more")
    later = CacheEntry([4, 1, 1], CONTENTS._replace(num_records=4))
    new = {str(tmp_path / name): later for name in ("a", "c")}
    verification_cache.add(str(tmp_path), new)
    assert verification_cache.read(str(tmp_path)) == kept | new


def test_missing_files_and_files_without_mtime_keep_no_entry(kept, tmp_path):
    path, other = kept
    os.remove(path)
    verification_cache.add(str(tmp_path), {})
    assert verification_cache.read(str(tmp_path)) == {other: kept[other]}
    verification_cache.add(str(tmp_path), {other: CacheEntry([7, 0], CONTENTS)})
    assert verification_cache.read(str(tmp_path)) == {}


def _of_another_version(text):
    return text.replace('"format_version": 1', '"format_version": 2')


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-9],
        lambda text: "[1, 2]",
        lambda text: "{}",
        lambda text: text.replace("[5, 16,", "[7, 16,"),
        lambda text: json.dumps(json.loads(text) | {"files": None}),
        lambda text: json.dumps(json.loads(text) | {"sha256": 0}),
        lambda text: json.dumps(verification_cache._with_checksum(None)),
        lambda text: json.dumps(
            verification_cache._with_checksum({"a": [1, [2]]})
        ),
        _of_another_version,
    ],
)
def test_damaged_verifications_are_ignored_and_replaced(kept, tmp_path, damage):
    path = tmp_path / CACHE_FILE
    text = path.read_text()
    path.write_text(damage(text))
    assert path.read_text() != text
    assert verification_cache.read(str(tmp_path)) == {}
    verification_cache.add(str(tmp_path), kept)
    assert verification_cache.read(str(tmp_path)) == kept


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EROFS, os.strerror(errno.EROFS)),
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        store_requests.StoreError("no right to write"),
    ],
)
def test_errors_in_writing_and_removing_verifications_are_ignored(
    kept, tmp_path, monkeypatch, error
):
    def refuse(*_):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(files, "atomic_write_text", refuse)
        patched.setattr(storage, "remove", refuse)
        verification_cache.add(str(tmp_path), {})
        verification_cache.forget([str(tmp_path)])
    assert verification_cache.read(str(tmp_path)) == kept


def test_forgotten_verifications_are_gone(kept, tmp_path):
    for _ in range(2):
        verification_cache.forget([str(tmp_path)])
        assert verification_cache.read(str(tmp_path)) == {}
