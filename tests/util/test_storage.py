"""Files in a store, here TensorFlow's ram://, behave as local files do."""

import os
import pathlib

import pytest

from electra_tf.util import storage
from electra_tf.util.errors import UserError


@pytest.fixture(params=["", "ram://"], ids=["here", "store"])
def root(request, tmp_path):
    return f"{request.param}{tmp_path}/root"


def write(path, content=b""):
    storage.make_directories(os.path.dirname(path))
    if storage.is_remote(path):
        storage.write_bytes(path, content)
    else:
        with open(path, "wb") as file:
            file.write(content)


def test_files_are_found(root):
    names = ["b.txt", "a/c.txt", "a/b/d.jsonl", ".hidden", "a/.b/e.txt"]
    for name in names:
        write(f"{root}/{name}", b"12345")
    found = {*storage.files_below(root)}
    assert found == {f"{root}/{name}" for name in names[:3]}
    assert sorted(storage.glob(f"{root}/a/*.t?t")) == [f"{root}/a/c.txt"]
    assert storage.find(root, ["*.txt", ".h*", "a"]) == [
        f"{root}/{name}" for name in ("b.txt", ".hidden", "a")
    ]
    assert storage.find(f"{root}/none", ["*"]) == []
    assert storage.is_directory(f"{root}/a")
    names = ("a", "b.txt")
    assert [storage.is_file(f"{root}/{name}") for name in names] == [0, 1]
    assert storage.size(f"{root}/b.txt") == 5
    for name in names:
        storage.remove(f"{root}/{name}")
        assert not storage.exists(f"{root}/{name}")


STRANGE = ("[a]", "a [1-9]", "*", "?", "b\\*", "\\", "a,b", "[,]", "{a,b}")


@pytest.mark.parametrize("name", STRANGE)
def test_a_directory_of_any_name_can_be_written_as_a_pattern(tmp_path, name):
    for parent in (name, "a", "a 1", "b", "bc"):
        write(str(tmp_path / parent / "x.txt"))
    directory = str(tmp_path / name)
    pattern = f"{storage.escape(directory)}/*.txt"
    assert storage.split_patterns(f"{pattern}, b* ,") == [pattern, "b*", ""]
    assert storage.glob(pattern) == [f"{directory}/x.txt"]


def test_a_pattern_that_matches_nothing_may_be_a_name(tmp_path):
    path = str(tmp_path / "[v2]" / "[x].txt")
    write(path)
    for pattern in (path, f"{tmp_path}/[v2]/*.txt", f"{tmp_path}/[[]v2]/*"):
        assert storage.glob(pattern) == [path]
    assert storage.glob(f"{tmp_path}/[v3]/*.txt") == []
    write(str(tmp_path / "v" / "a.txt"))
    found = storage.glob(f"{tmp_path}/[v2]/*.txt")
    assert found == [str(tmp_path / "v" / "a.txt")], "a pattern comes first"


def test_bytes_are_read_from_any_place(root):
    content = os.urandom(3 * 2**20) + b"\nline\nend"
    write(f"{root}/x", content)
    assert storage.read_bytes(f"{root}/x") == content
    with storage.open_binary(f"{root}/x") as file:
        file.seek(3 * 2**20 + 1)
        assert file.tell() == 3 * 2**20 + 1
        assert file.readline() == b"line\n"
        assert file.read(2) == b"en"
        assert file.read() == b"d"
        assert file.read() == b""


def test_a_move_replaces_what_is_there(root):
    write(f"{root}/new", b"new")
    write(f"{root}/old", b"old")
    storage.move(f"{root}/new", f"{root}/old")
    assert storage.read_bytes(f"{root}/old") == b"new"
    assert not storage.exists(f"{root}/new")


def test_a_store_that_nobody_knows_is_named():
    for function in (storage.exists, storage.glob, storage.read_bytes):
        with pytest.raises(UserError, match="scheme 'none' not implemented"):
            function("none://bucket/x")


def test_missing_files_raise_file_not_found_error(root):
    for function in (storage.read_bytes, storage.size, storage.remove):
        with pytest.raises(FileNotFoundError):
            function(f"{root}/none")


def test_links_to_directories_are_followed_once(tmp_path):
    root, other = tmp_path / "root", tmp_path / "other"
    (root / "a").mkdir(parents=True)
    (other / "deep").mkdir(parents=True)
    for path in (root / "a/1.txt", other / "2.txt", other / "deep/3.txt"):
        path.write_text("x")
    (root / "link").symlink_to(other)
    (root / "again").symlink_to(other / "deep")
    (root / "inside").symlink_to(root / "a")
    (root / ".hidden").symlink_to(tmp_path)
    (other / "back").symlink_to(root)  # a circle
    found = sorted(storage.files_below(str(root)))
    assert found == [
        f"{root}/{p}" for p in ("a/1.txt", "again/3.txt", "link/2.txt")
    ]


def test_real_path_is_the_same_for_all_names_of_a_file(tmp_path, monkeypatch):
    path = tmp_path / "d/a.txt"
    path.parent.mkdir()
    path.write_text("x")
    (tmp_path / "a.txt").symlink_to(path)
    (tmp_path / "e").symlink_to(tmp_path / "d")
    monkeypatch.chdir(tmp_path)
    names = ["d/a.txt", str(path), "./d/../d/a.txt", "a.txt", "e/a.txt"]
    assert {storage.real_path(name) for name in names} == {
        os.path.realpath(path)
    }
    assert storage.real_path("gs://b/../a") == "gs://b/../a"


def test_a_path_of_a_store_keeps_its_slashes():
    path = storage.as_path("gs://bucket/run/") / "a.txt"
    assert (str(path), path.name) == ("gs://bucket/run/a.txt", "a.txt")
    assert path.parent == storage.as_path("gs://bucket/run")
    assert str(storage.as_path("ram:///tmp/x") / "y") == "ram:///tmp/x/y"
    assert storage.as_path("/a/b") == pathlib.Path("/a/b")


def test_files_are_copied_to_a_store_and_back(tmp_path):
    storage.make_directories(f"ram://{tmp_path}")
    for content in (os.urandom(2**20 + 9), b"shorter", b""):
        (tmp_path / "x").write_bytes(content)
        storage.upload(str(tmp_path / "x"), f"ram://{tmp_path}/x")
        assert storage.read_bytes(f"ram://{tmp_path}/x") == content
        storage.download(f"ram://{tmp_path}/x", str(tmp_path / "y"))
        assert (tmp_path / "y").read_bytes() == content


def test_a_directory_that_cannot_be_listed_is_no_empty_one(
    tmp_path, monkeypatch
):
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.txt").touch()
    original_scandir = os.scandir

    def scandir(path):
        if os.path.basename(path) == "closed":
            raise PermissionError(13, "Permission denied", path)
        return original_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match="closed"):
        list(storage.files_below(str(tmp_path)))
