"""Measurements of a plan: bytes and tokens by a sample, and an update."""

import json
import random
import sys

import corpora
import pyarrow
import pyarrow.parquet
import pytest
import tiny

from electra_tf.data import preparation
from electra_tf.pretrain import plan_measurements
from electra_tf.pretrain.plan_sizes import MODEL_SIZES, configure
from electra_tf.util.errors import UserError

WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]


def _write(path, seed, num_documents, compressed=""):
    """Writes documents of five lines of twelve words; returns their bytes."""
    rng = random.Random(seed)
    lines = (
        "\n".join(" ".join(rng.choices(WORDS, k=12)) for _ in range(5))
        for _ in range(num_documents)
    )
    text = "\n\n".join(lines) + "\n"
    corpora.write(path, text, compressed)
    return len(text)


def _config(*paths, **given):
    given = {"corpus": tuple(map(str, paths)), "packing": "packed", **given}
    return configure(MODEL_SIZES[0], given)


def _sample(tmp_path, *paths):
    """Writes a sample of files; returns bytes of all text and of the sample."""
    with (tmp_path / "sample").open("w") as file:
        return plan_measurements._write_sample(_config(*paths).corpus, file)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_bytes_of_text_are_estimated_from_the_start_of_files(
    tmp_path, monkeypatch, ending
):
    monkeypatch.setattr(plan_measurements, "_SAMPLE_BYTES", 40_000)
    monkeypatch.setattr(plan_measurements, "_EXPANSION_BYTES", 400_000)
    paths = [tmp_path / f"{n}.txt{ending}" for n in range(2)]
    sizes = (3000, 1000)  # documents, of 240 bytes
    whole = sum(
        _write(path, seed, size, ending)
        for seed, (path, size) in enumerate(zip(paths, sizes, strict=True))
    )
    found, sampled = _sample(tmp_path, *paths)
    assert 40_000 <= sampled < 41_000
    assert found == pytest.approx(whole, rel=0.1)
    sample = (tmp_path / "sample").read_text()
    assert sample.count("\n") == pytest.approx(sampled / 240, rel=0.05)


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".zst", ".parquet"])
def test_only_the_text_of_rows_is_estimated(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(plan_measurements, "_SAMPLE_BYTES", 40_000)
    monkeypatch.setattr(plan_measurements, "_EXPANSION_BYTES", 2_000_000)
    rng = random.Random(0)
    texts = ["я" + " я".join(rng.choices(WORDS, k=50)) for _ in range(10_000)]
    path = tmp_path / f"rows{ending}"
    if ending == ".parquet":
        columns = pyarrow.table({"text": texts, "url": ["x" * 99] * 10_000})
        pyarrow.parquet.write_table(columns, path, compression="zstd")
    else:  # json.dumps escapes letters that are not ASCII
        lines = (json.dumps({"url": "x" * 99, "text": x}) for x in texts)
        corpora.write(path, "\n".join(lines), f".{ending.split('.')[-1]}")
    found, sampled = _sample(tmp_path, path)
    assert 40_000 <= sampled < 41_000
    assert found == pytest.approx(sum(len(x.encode()) for x in texts), rel=0.1)


def test_an_empty_file_has_no_text(tmp_path):
    paths = [tmp_path / "a.txt", tmp_path / "empty.jsonl"]
    paths[1].touch()
    size = _write(paths[0], 0, 50)
    assert _sample(tmp_path, *paths) == (size, size)


def test_a_small_text_is_read_as_a_whole(tmp_path):
    size = _write(tmp_path / "a.txt.xz", 0, 50, ".xz")
    assert _sample(tmp_path, tmp_path / "a.txt.xz") == (size, size)


def test_a_text_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "a.txt.xz"
    path.write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"a\.txt\.xz"):
        _sample(tmp_path, path)


def test_the_exit_code_of_a_failed_process_is_named():
    with pytest.raises(UserError, match="exited with code 3"):
        plan_measurements.in_own_process(sys.exit, 3)


@pytest.mark.slow
def test_tokens_are_those_of_the_records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a plan's configuration names no directory
    path = tmp_path / "a.txt"
    size = _write(path, 0, 2000)
    config = _config(path, vocab_size=200)
    found = plan_measurements.count_tokens(config)
    whole = _config(path, vocab_size=200, held_out_fraction=0.0)
    records = preparation.prepare(whole, log=lambda _: None).train[64]
    assert found.num_tokens == 64 * records.num_records
    # Words of one to three pieces, [CLS] and one or two [SEP] in a row.
    assert 2000 * 60 < found.num_tokens < 1.1 * 3 * 2000 * 60
    assert found.num_bytes == size


@pytest.mark.slow
def test_an_update_is_timed(monkeypatch):
    monkeypatch.setattr(plan_measurements, "_SECONDS_PER_REPETITION", 0.1)
    config = tiny.config(vocab_size=60)
    found = plan_measurements.measure_update(config)
    assert found.config == config
    assert 0 < found.seconds < found.start_seconds
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[1]) * 4096
    assert found.peak_bytes >= 0.9 * now
