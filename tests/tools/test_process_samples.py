"""Samples of a process from outside, and the slope of its memory."""

import mmap
import os
import subprocess
import sys
import threading

import numpy as np
import process_samples
import pytest

from electra_tf.util.errors import UserError


def test_memory_files_and_threads_of_a_process_are_counted(tmp_path):
    before = process_samples.take(os.getpid(), 3.0)
    # Not from the heap, which may reuse freed memory.
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    held = mmap.mmap(-1, 32_000_000, flags=private)
    held[:: mmap.PAGESIZE] = bytes(-(-len(held) // mmap.PAGESIZE))  # touches
    done = threading.Event()
    waiting = threading.Thread(target=done.wait)
    waiting.start()
    with open(tmp_path / "a", "w"), open(tmp_path / "b", "w"):
        after = process_samples.take(os.getpid(), 4.0)
    done.set()
    waiting.join()
    assert (before.progress, after.progress) == (3.0, 4.0)
    assert after.open_files == before.open_files + 2
    assert after.threads == before.threads + 1
    grown = after.memory_mb - before.memory_mb
    assert grown == pytest.approx(len(held) / 1e6, abs=3)


def test_a_process_that_has_ended_is_seen_no_more():
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    pid = process.pid
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # ended, not waited for
    assert process_samples.take(pid, 0.0) is None
    process.wait()
    assert process_samples.take(pid, 0.0) is None


def test_a_process_is_watched_until_it_is_done():
    looks = iter([False, False, True])
    progress = iter([7.0, 8.0])
    samples = process_samples.watch(
        os.getpid(), lambda: next(progress), lambda seconds: next(looks), 0.5
    )
    assert [x.progress for x in samples] == [7.0, 8.0]


def test_the_slope_is_that_of_the_means_of_blocks():
    x = np.arange(60.0)
    y = 5 + 0.25 * x + np.random.default_rng(0).normal(size=60)
    found = process_samples.slope(x, y)
    means_x, means_y = x.reshape(20, 3).mean(1), y.reshape(20, 3).mean(1)
    (value, start), covariance = np.polyfit(means_x, means_y, 1, cov=True)
    assert found.value == pytest.approx(value)
    half = 2.100922 * covariance[0, 0] ** 0.5  # Student's t, 18 (a table)
    assert found.low == pytest.approx(value - half)
    assert found.high == pytest.approx(value + half)


def test_the_interval_holds_for_autocorrelated_samples():
    """Noise with an autocorrelation of 0.9, and no slope."""
    rng = np.random.default_rng(1)
    held, held_by_all = 0, 0
    for _ in range(200):
        noise = np.zeros(1000)
        for i, new in enumerate(rng.normal(size=999)):
            noise[i + 1] = 0.9 * noise[i] + new
        x = np.arange(1000.0)
        found = process_samples.slope(x, noise)
        held += found.low <= 0 <= found.high
        (value, _), covariance = np.polyfit(x, noise, 1, cov=True)
        held_by_all += abs(value) <= 1.96 * covariance[0, 0] ** 0.5
    assert held >= 180  # 95 % are 190
    assert held_by_all < 140  # as if samples were independent


@pytest.mark.parametrize("x", [np.arange(39), np.full(60, 5.0)])
def test_too_few_or_equal_samples_are_refused(x):
    with pytest.raises(UserError, match="after the warm-up"):
        process_samples.slope(x, np.zeros(len(x)))


def test_growth_is_told_for_each_thousand():
    samples = [
        process_samples.Sample(50.0 * i, 100 + 0.2 * i, 9 + (i == 3), 4)
        for i in range(100)
    ]
    report = process_samples.summarize(samples)
    assert report["memory_mb_per_1000"]["value"] == pytest.approx(4.0)
    assert report["memory_mb"]["last"] == pytest.approx(119.8)
    files = report["open_files"]
    assert (files["min"], files["median"], files["max"]) == (9, 9, 10)
    assert report["threads"]["first"] == report["threads"]["last"] == 4
