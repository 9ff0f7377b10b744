"""Runs refuse record files that are missing, damaged or of other settings."""

import dataclasses
import json
import os
import pathlib
import shutil
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from corpora import flip_bit

from electra_tf.configure_pretraining import CorpusConfig
from electra_tf.data import records, recovery, scanner
from electra_tf.data.dataset_files import MANIFEST, RecordWriter, settings
from electra_tf.data.packing_rules import ExampleSpan
from electra_tf.data.record_format import TRAIN, RecordKind, layout, serialize
from electra_tf.data.records import RecordFile, Records, explaining_read_errors
from electra_tf.data.scanner import Scanner, locate_damage
from electra_tf.data.verification_cache import CACHE_FILE
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.pretrain.pretrain_data import training_dataset
from electra_tf.util import storage
from electra_tf.util.errors import UserError

LENGTH = 16
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefgh"))
CONFIG = CorpusConfig(max_seq_length=LENGTH)
SLOW_TRUE, SLOW_TWO = (
    pytest.param(x, marks=pytest.mark.slow) for x in (True, 2)
)


@pytest.fixture
def data_set(tmp_path):
    """Two files with 5 and 4 records and their manifest."""
    kind = RecordKind(LENGTH, TRAIN, LENGTH)
    with RecordWriter(str(tmp_path), kind, 2) as writer:
        for i in range(9):
            ids, span = np.array([5, 6] + [7] * i), ExampleSpan(0, 2, 2 + i)
            rows = layout(ids, [[span]], LENGTH, VOCABULARY)
            writer.write(serialize(rows)[0])
        writer.close()
        entries = writer.publish()
    manifest = settings(CONFIG, VOCABULARY) | {"files": entries}
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    return tmp_path


def open_records(directory, config=CONFIG, vocabulary=VOCABULARY, **kwargs):
    pattern = os.path.join(directory, "pretrain_data.tfrecord*")
    return Records.open(pattern, config, vocabulary, **kwargs)


def shard(directory, number=0):
    return directory / f"pretrain_data.tfrecord-{number}-of-2"


def change_manifest(directory, change):
    path = directory / MANIFEST
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def write_records(path, *rows):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for features in rows:
            message = tf.train.Example()
            for name, values in features.items():
                kind = message.features.feature[name]
                kind.int64_list.value.extend(values)
            writer.write(message.SerializeToString())


def row(**features):
    zeros = [0] * LENGTH
    defaults = {"input_ids": zeros, "input_mask": zeros, "segment_ids": zeros}
    return defaults | features


@pytest.mark.parametrize("has_manifest", [True, False])
def test_sound_files_open_with_and_without_a_manifest(data_set, has_manifest):
    if not has_manifest:
        (data_set / MANIFEST).unlink()
    opened = open_records(data_set)
    assert [file.num_records for file in opened.files] == [5, 4]
    assert opened.num_records == 9
    assert opened.files[0].path == str(shard(data_set))
    assert opened.files[0].num_bytes == shard(data_set).stat().st_size


def test_large_files_are_not_scanned_if_a_manifest_lists_them(
    data_set, monkeypatch
):
    flip_bit(shard(data_set), -20)  # in the last record
    monkeypatch.setattr(records, "MAX_BYTES_TO_SCAN", 100)
    assert open_records(data_set).num_records == 9


def test_several_patterns_give_each_file_once(data_set):
    path = str(shard(data_set))
    again = f"{data_set}//./*-0-of-2"
    opened = Records.open(f"{path}, {again}", CONFIG, VOCABULARY)
    assert [file.path for file in opened.files] == [path]


def test_a_cache_in_a_store_is_no_file_of_records(tmp_path):
    for name in ("a", CACHE_FILE):
        storage.write_bytes(f"ram://{tmp_path}/{name}", b"x")
    assert records.find(f"ram://{tmp_path}/*") == [f"ram://{tmp_path}/a"]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "junk"])
def test_damage_names_file_and_record(data_set, damage):
    (data_set / MANIFEST).unlink()
    path, number = shard(data_set, 1), 0 if damage == "junk" else 3
    if damage == "flipped":
        flip_bit(path, -20)
    else:
        cut = path.read_bytes()[:-3]
        path.write_bytes(cut if damage == "truncated" else os.urandom(500))
    with pytest.raises(UserError, match=f"1-of-2: record {number} cannot"):
        open_records(data_set)
    paths = [str(shard(data_set)), str(path)]
    assert f"1-of-2: record {number} cannot be read" in locate_damage(paths)
    assert "{{" not in locate_damage(paths)
    assert "can be read" in locate_damage(paths[:1])


@pytest.mark.parametrize("is_large", [False, SLOW_TRUE])
@pytest.mark.parametrize("has_manifest", [True, False])
@pytest.mark.parametrize("damage", ["truncated", "whole", "first", "last"])
def test_damaged_files_open_with_skip_corrupt_records(
    data_set, monkeypatch, has_manifest, damage, is_large
):
    if not has_manifest:
        (data_set / MANIFEST).unlink()
    if is_large:
        monkeypatch.setattr(records, "MAX_BYTES_TO_SCAN", 100)
    path = shard(data_set, 1)
    content = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(content[:-3])
    elif damage == "whole":  # cut between two records
        path.write_bytes(content[: len(content) // 4])
    else:
        flip_bit(path, 20 if damage == "first" else -20)
    opened = open_records(data_set, skip_corrupt_records=True)
    expected = 1 if damage == "whole" and not has_manifest else 4
    assert [file.num_records for file in opened.files] == [5, expected]
    for bucket in opened.buckets:
        assert bucket.recovery is opened.recovery
    if not is_large and (has_manifest or damage != "whole"):
        with pytest.raises(UserError):
            open_records(data_set)


def test_a_file_without_an_intact_record_is_never_left_out(data_set):
    shard(data_set, 1).write_bytes(os.urandom(500))
    with pytest.raises(UserError, match="1-of-2 must hold at least.*of 4"):
        open_records(data_set, skip_corrupt_records=True)


def test_a_file_that_is_missing_is_never_left_out(data_set):
    shard(data_set, 1).unlink()
    with pytest.raises(UserError, match="1-of-2 must have.*no such file"):
        open_records(data_set, skip_corrupt_records=True)


def test_wrong_values_are_never_skipped_as_damage(data_set):
    (data_set / MANIFEST).unlink()
    write_records(shard(data_set, 1), row(input_ids=[99] * LENGTH), row())
    content = shard(data_set, 1).read_bytes()
    for whole in (content, content[:-3]):
        shard(data_set, 1).write_bytes(whole)
        with pytest.raises(UserError, match="Received: 99 at position 0"):
            open_records(data_set, skip_corrupt_records=True)


@pytest.fixture
def verified_files(monkeypatch):
    """The names of the files that are verified in full from now on."""
    names, scan = [], Scanner.scan

    def spy(scanner, path, *, max_records=-1):
        if max_records < 0:
            names.append(os.path.basename(path))
        return scan(scanner, path, max_records=max_records)

    monkeypatch.setattr(Scanner, "scan", spy)
    return names


@pytest.mark.parametrize("is_large", [False, SLOW_TRUE])
@pytest.mark.parametrize("has_manifest", [True, False])
@pytest.mark.parametrize("skips", [True, False])
def test_verified_files_are_not_read_again_unless_asked(
    data_set, verified_files, monkeypatch, has_manifest, is_large, skips
):
    if not has_manifest:
        (data_set / MANIFEST).unlink()
    first = open_records(data_set)
    assert sorted(verified_files) == [shard(data_set, i).name for i in (0, 1)]
    if is_large:
        monkeypatch.setattr(records, "MAX_BYTES_TO_SCAN", 100)
    verified_files.clear()
    again = open_records(data_set, skip_corrupt_records=skips)
    assert not verified_files
    assert again.num_records == first.num_records == 9
    assert skips or again == first
    open_records(data_set, verify_records=True)
    assert len(verified_files) == 2


def _replace_by_a_copy(path):
    time.sleep(0.02)  # more than a tick of the clock of files
    before = path.stat()
    path.with_name("new").write_bytes(path.read_bytes())
    os.utime(path.with_name("new"), ns=(0, before.st_mtime_ns))
    path.with_name("new").replace(path)
    after = path.stat()
    assert after.st_mtime_ns == before.st_mtime_ns
    assert after.st_size == before.st_size


def _replace_by_a_link(path):
    other = path.parent / "elsewhere"
    other.mkdir()
    shutil.copy2(path, other)
    _replace_by_a_copy(other / path.name)
    path.unlink()
    path.symlink_to(other / path.name)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: os.utime(path, ns=(0, path.stat().st_mtime_ns + 1)),
        _replace_by_a_copy,
        _replace_by_a_link,
    ],
)
def test_only_a_file_that_changed_is_verified_again(
    data_set, verified_files, change
):
    open_records(data_set)
    verified_files.clear()
    change(shard(data_set, 1))
    for _ in range(2):
        open_records(data_set)
        assert verified_files == [shard(data_set, 1).name]


def test_a_copy_is_verified_again_and_a_renamed_directory_is_not(
    data_set, verified_files, tmp_path_factory
):
    open_records(data_set)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    verified_files.clear()
    time.sleep(0.02)  # more than a tick of the clock of files
    shutil.copytree(data_set, elsewhere / "copy")
    open_records(elsewhere / "copy")
    assert len(verified_files) == 2
    verified_files.clear()
    (elsewhere / "copy").rename(elsewhere / "renamed")
    open_records(elsewhere / "renamed")
    assert not verified_files


def test_sound_files_beside_a_damaged_one_stay_verified(
    data_set, verified_files
):
    content = shard(data_set, 1).read_bytes()
    shard(data_set, 1).write_bytes(content[:-20] + b"x" + content[-19:])
    for _ in range(2):
        with pytest.raises(UserError, match="1-of-2: record 3 cannot be read"):
            open_records(data_set)
    assert verified_files.count(shard(data_set, 0).name) == 1
    shard(data_set, 1).write_bytes(content)
    assert open_records(data_set).num_records == 9
    assert verified_files.count(shard(data_set, 0).name) == 1


def test_a_cache_entry_holds_only_if_its_contents_fit_the_configuration(
    data_set, verified_files
):
    (data_set / MANIFEST).unlink()
    open_records(data_set)  # its largest id is 7
    open_records(data_set, vocabulary=Vocabulary(VOCABULARY.tokens[:8]))
    assert len(verified_files) == 2
    with pytest.raises(UserError, match="below 7. Received: 7 at position"):
        open_records(data_set, vocabulary=Vocabulary(VOCABULARY.tokens[:7]))
    with pytest.raises(UserError, match="8 integers `input_ids`"):
        open_records(data_set, dataclasses.replace(CONFIG, max_seq_length=8))


def test_a_manifest_must_agree_with_cache_entries(data_set):
    open_records(data_set)
    change_manifest(data_set, _miscount)
    with pytest.raises(UserError, match="the 5 records .* Received: 4"):
        open_records(data_set)


def test_a_data_set_opens_where_no_cache_can_be_kept(data_set, verified_files):
    (data_set / CACHE_FILE).mkdir()  # cannot be written, nor read
    for number in (1, 2):
        assert open_records(data_set).num_records == 9
        assert len(verified_files) == 2 * number


def test_several_threads_may_open_a_data_set_at_once(data_set, verified_files):
    opened = []
    threads = [
        threading.Thread(target=lambda: opened.append(open_records(data_set)))
        for _ in range(8)  # of one process, whose id names the temporary file
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 8 and all(one == opened[0] for one in opened)
    open_records(data_set)  # concurrent writes may have lost all entries
    verified_files.clear()
    assert open_records(data_set) == opened[0] and not verified_files
    assert not list(data_set.glob("tmp-*"))


@pytest.fixture
def rotten(data_set, monkeypatch):
    """A data set whose bits rot after it was verified."""
    # Without the ctime, which no program can set back.
    identity = storage.identity
    monkeypatch.setattr(storage, "identity", lambda path: identity(path)[:2])
    open_records(data_set)
    path = shard(data_set, 1)
    before = path.stat()
    flip_bit(path, -20)
    os.utime(path, ns=(0, before.st_mtime_ns))
    return data_set


def read_as(num_workers, records):
    """Returns the rows of the last of the workers, one at a time."""
    return training_dataset(
        records,
        batch_size=num_workers,
        seed=0,
        shuffle_megabytes=0,
        context=tf.distribute.InputContext(
            num_workers, num_workers - 1, num_workers
        ),
    )


@pytest.mark.promise(
    "Bits of records rot after they were verified: training names file and "
    "record and ends"
)
@pytest.mark.parametrize("num_workers", [1, SLOW_TWO])
def test_bits_that_rot_after_verification_are_named_when_read(
    rotten, num_workers
):
    opened = open_records(rotten)
    rows = read_as(num_workers, opened)
    with pytest.raises(UserError, match="1-of-2: record 3 cannot be read"):
        with explaining_read_errors({LENGTH: opened}):
            list(rows.take(20))
    with pytest.raises(UserError, match="1-of-2: record 3 cannot be read"):
        open_records(rotten)


@pytest.mark.promise(
    "Damaged records, with --skip_corrupt_records: others of their file "
    "take their places, and they are counted"
)
def test_bits_that_rot_after_verification_are_left_out_when_read(
    rotten, capsys
):
    opened = open_records(rotten, skip_corrupt_records=True)
    assert not capsys.readouterr().err
    os.utime(shard(rotten, 1))  # as if written to since
    rows = training_dataset(opened, batch_size=9, seed=0, shuffle_megabytes=0)
    tokens = [int(np.sum(x)) for x in next(iter(rows)).input_mask]
    # Another record of its file takes the place of the one of 12 tokens.
    assert len(tokens) == 9 and set(tokens) == {4, 6, 7, 8, 9, 10, 11, 13}
    assert "1 of 4 records are damaged" in capsys.readouterr().err


def _remove_all(data_set):
    for path in data_set.iterdir():
        path.unlink()


def _empty_a_file(data_set):
    (data_set / MANIFEST).unlink()
    shard(data_set, 1).write_bytes(b"")


def _write_no_example(data_set):
    (data_set / MANIFEST).unlink()
    with tf.io.TFRecordWriter(str(shard(data_set, 1))) as writer:
        writer.write(b"\xff\xff")


def _leave_an_unfinished_file(data_set):
    (data_set / MANIFEST).unlink()
    (data_set / ".pretrain_data.tfrecord-2.tmp").write_bytes(b"x")


@pytest.mark.parametrize("is_large", [False, SLOW_TRUE])
@pytest.mark.parametrize("size", [10_000, 2**40, 2**64 - 1])
def test_a_record_size_beyond_its_file_allocates_no_memory(
    data_set, monkeypatch, size, is_large
):
    if is_large:
        monkeypatch.setattr(records, "MAX_BYTES_TO_SCAN", 100)
    header = recovery._with_checksum(size.to_bytes(8, "little"))
    path, number = shard(data_set, 1), 0 if is_large else 2
    end = number * len(path.read_bytes()) // 4  # all records have the same size
    content = path.read_bytes()
    path.write_bytes(content[:end] + header + content[end + 12 :])
    with pytest.raises(UserError, match=f"record {number} cannot be read"):
        open_records(data_set)
    opened = open_records(data_set, skip_corrupt_records=True)
    assert len(opened.recovery.read(str(path), 4)) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_remove_all, r"pretrain_data\.tfrecord\*"),
        (_empty_a_file, "1-of-2 must hold records.*0 bytes"),
        (_write_no_example, "1-of-2: record 0.*tf.train.Example"),
        (
            lambda x: write_records(shard(x, 1), row()),
            r"1-of-2 must have the \d+ bytes",
        ),
        (lambda x: shard(x, 1).unlink(), "1-of-2 must have.*no such file"),
        (
            lambda x: (x / "pretrain_data.tfrecord-old").write_bytes(b"x"),
            "tfrecord-old must belong",
        ),
        (_leave_an_unfinished_file, "was stopped"),
    ],
)
def test_an_error_says_what_is_wrong_with_a_data_set(data_set, change, message):
    change(data_set)
    with pytest.raises(UserError, match=message):
        open_records(data_set)


def _miscount(manifest, name="num_records", number=5):
    manifest["files"][1][name] = number
    return manifest


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("num_records", 0),
        ("num_records", 2**60),
        ("num_records", float("inf")),
        ("num_records", "many"),
        ("num_bytes", -1),
        ("max_seq_length", 2**60),
    ],
)
def test_impossible_numbers_in_a_manifest_allocate_no_memory(
    data_set, skip, name, number
):
    change_manifest(data_set, lambda listed: _miscount(listed, name, number))
    with pytest.raises(UserError, match=r"manifest\.json must (list|have)"):
        open_records(data_set, skip_corrupt_records=skip)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(
            (
                lambda m, x=x: {**m, "files": x},
                r"manifest\.json must have the structure",
            )
            for x in (None, 3, [1], [{}], [{"name": 3}], ["x"])
        ),
        (lambda m: {**m, "files": []}, "0-of-2 must belong to the data set"),
        (lambda _: [], r"manifest\.json must hold a JSON obj"),
        (lambda _: {"format_version": 99}, "Received: 99"),
        (_miscount, "1-of-2 must have the 5 records"),
    ],
)
def test_an_error_says_what_is_wrong_with_a_manifest(data_set, change, message):
    change_manifest(data_set, change)
    with pytest.raises(UserError, match=message):
        open_records(data_set)


@pytest.mark.promise(
    "Records of another vocabulary or of other settings: a start names what"
    " differs, with both values"
)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_seq_length", 32),
        ("packing", "packed"),
        ("do_lower_case", False),
        ("strip_accents", False),
    ],
)
def test_a_setting_that_differs_is_named_with_both_values(
    data_set, name, value
):
    config = dataclasses.replace(CONFIG, **{name: value})
    stored = getattr(CONFIG, name)
    message = f"{name} is {stored} in the data set but {value} in this run"
    with pytest.raises(UserError, match=message):
        open_records(data_set, config)
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *"hgfedcba"))
    with pytest.raises(UserError, match="vocab_sha256 is .* in the data set"):
        open_records(data_set, vocabulary=vocabulary)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(input_ids=[0] * 99), "16 integers `input_ids`.*Received: 99"),
        ({"input_ids": [0] * LENGTH}, "`input_mask`.*Received: 0"),
        (row(input_ids=[VOCABULARY.size] * LENGTH), "below 13. Received: 13"),
        (row(input_ids=[-1] * LENGTH), "Received: -1 at position 0"),
        (row(segment_ids=[0] * 15 + [2]), "segment_ids.*2 at position 15"),
        (row(input_mask=[1] * 9 + [2] * 7), "input_mask.*2 at.*--packing"),
    ],
)
def test_a_record_that_does_not_fit_is_named(data_set, bad, message):
    (data_set / MANIFEST).unlink()
    write_records(shard(data_set, 1), row(), row(), bad, row())
    with pytest.raises(UserError, match=f"1-of-2: record 2.*{message}"):
        open_records(data_set)


def test_packed_rows_may_hold_at_most_127_examples(data_set):
    (data_set / MANIFEST).unlink()
    config = dataclasses.replace(CONFIG, packing="packed")
    write_records(shard(data_set), row(input_mask=[1] * 9 + [127] * 7))
    assert open_records(data_set, config).num_records == 5
    write_records(shard(data_set), row(input_mask=[1] * 9 + [128] * 7))
    with pytest.raises(UserError, match="below 128. Received: 128"):
        open_records(data_set, config)


def write_numbers(path, numbers):
    write_records(path, *(row(input_ids=[n] * LENGTH) for n in numbers))
    version = tuple(storage.version(str(path)))
    return RecordFile(str(path), len(numbers), version[0], LENGTH, version)


def test_a_scan_sums_up_its_batches_and_counts_through_them(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(scanner, "_BATCH", 2)
    path = str(tmp_path / "a")
    write_numbers(path, [1, 9, 2, 3, 4])
    found = Scanner(LENGTH, 10, 1).scan(path)
    assert found == scanner.Contents(5, LENGTH, [9, 0, 0])
    write_numbers(path, [1, 2, 3, 10])
    with pytest.raises(UserError, match="record 3.*below 10. Received: 10"):
        Scanner(LENGTH, 10, 1).scan(path)


@pytest.fixture
def opened(tmp_path):
    """Two files of three records; each file is a group of its own."""
    return Records(
        (
            write_numbers(tmp_path / "a", [1, 2, 3]),
            write_numbers(tmp_path / "b", [4, 5, 6]),
        )
    )


def _swap(path):
    write_numbers(f"{path}-new", [7, 8, 9])
    os.utime(f"{path}-new", ns=(0, 0))
    os.replace(f"{path}-new", path)


def _cut(path):
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize("num_workers", [1, SLOW_TWO])
@pytest.mark.parametrize(
    ("change", "received"),
    [
        (pathlib.Path.unlink, "no such file"),
        (_swap, "modified since the run opened it"),
        (_cut, "modified since the run opened it"),
    ],
)
def test_a_file_that_changes_while_it_is_read_is_named(
    opened, tmp_path, change, received, num_workers
):
    rows = iter(read_as(num_workers, opened))
    with pytest.raises(UserError, match=f"/b must stay .*{received}. Restore"):
        with explaining_read_errors({LENGTH: opened}):
            next(rows)
            time.sleep(0.3)  # the next group is checked and read
            change(tmp_path / "b")
            for _ in range(60):  # more than any buffer holds
                assert next(rows).input_ids[0, 0] <= 6


def test_damage_and_missing_files_are_named_and_other_errors_pass(
    opened, tmp_path
):
    path = tmp_path / "b"
    flip_bit(path, path.stat().st_size // 2)
    os.utime(path, ns=(0, opened.files[1].version[1]))  # bit rot keeps the time
    with pytest.raises(UserError, match="b: record 1 cannot be read"):
        with explaining_read_errors({LENGTH: opened}):
            raise tf.errors.DataLossError(None, None, "corrupted record")
    with pytest.raises(tf.errors.UnavailableError):
        with explaining_read_errors({LENGTH: opened}):
            raise tf.errors.UnavailableError(None, None, "a worker is gone")
    path.unlink()
    with pytest.raises(UserError, match="/b must stay"):
        with explaining_read_errors({LENGTH: opened}):
            pass
