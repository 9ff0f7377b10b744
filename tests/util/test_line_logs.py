"""A log keeps all lines in order, on this machine and in a store."""

import fake_store
import pytest

from electra_tf.util import line_logs, storage
from electra_tf.util.line_logs import LineLog

LINES = [f'{{"step": {i}, "loss": 1.5}}\n' for i in range(40)]


@pytest.fixture(params=["", "ram://"], ids=["here", "store"])
def path(request, tmp_path, monkeypatch):
    monkeypatch.setattr(line_logs, "_PART_BYTES", 200)
    return f"{request.param}{tmp_path}/metrics.jsonl"


def write(path, lines):
    log = LineLog(path)
    for line in lines:
        log.append(line)


def steps_below(limit):
    return lambda line: int(line.split(b",")[0].split()[1]) < limit


def test_lines_come_back_in_order_from_several_writers(path):
    assert LineLog(path).read() == b""
    write(path, LINES[:25])
    write(path, LINES[25:])
    assert LineLog(path).read().decode() == "".join(LINES)


@pytest.mark.parametrize("limit", [0, 1, 8, 9, 25, 40])
def test_lines_that_are_dropped_leave_the_others(path, limit):
    write(path, LINES)
    LineLog(path).keep(steps_below(limit))
    assert LineLog(path).read().decode() == "".join(LINES[:limit])
    write(path, LINES[limit:])
    assert LineLog(path).read().decode() == "".join(LINES)


def test_a_line_costs_no_more_in_a_long_log_of_a_store(monkeypatch):
    monkeypatch.setattr(line_logs, "_PART_BYTES", 200)
    store = fake_store.install(monkeypatch)
    written, write_one = [], store.write

    def count(path, content):
        written.append(len(content))
        write_one(path, content)

    store.write = count
    write("fake://bucket/log", LINES)
    assert max(written) < 200 + len(LINES[-1])
    names = sorted(storage.find("fake://bucket", ["*"]))
    parts = [storage.read_bytes(name).decode() for name in names]
    assert len(parts) > 4 and "".join(parts) == "".join(LINES)


@pytest.mark.parametrize("limit", [3, 8, 16])
def test_a_kill_loses_no_line_that_was_written_before(monkeypatch, limit):
    monkeypatch.setattr(line_logs, "_PART_BYTES", 200)
    path = "fake://bucket/log"

    def resume():
        """Drops the lines past a step and appends new ones."""
        nonlocal num_written
        LineLog(path).keep(steps_below(limit))
        log = LineLog(path)
        for num_written in range(limit, 25):
            log.append(LINES[num_written])

    for number in range(1, 999):
        store = fake_store.install(monkeypatch)
        write(path, LINES[:20])
        num_written = limit
        store.on_step = fake_store.kill_at(store.num_steps + number)
        try:
            resume()
            break
        except fake_store.Killed:
            store.on_step = lambda _: None
        found = LineLog(path).read().decode()
        assert found.startswith("".join(LINES[:num_written])), number
        resume()
        assert LineLog(path).read().decode() == "".join(LINES[:25])
    assert number > 7 * (25 - limit), "each line is seven steps"


def test_a_second_kill_loses_no_line_either(monkeypatch):
    path = "fake://bucket/log"
    for first in range(1, 15):  # steps of two lines
        for second in range(1, 20):  # steps of the resumed run
            store = fake_store.install(monkeypatch)
            write(path, LINES[:9])
            for number in (first, second):
                store.on_step = fake_store.kill_at(store.num_steps + number)
                with pytest.raises(fake_store.Killed):
                    LineLog(path).keep(steps_below(11))
                    write(path, LINES[9:14])
                store.on_step = lambda _: None
                found = LineLog(path).read().decode()
                assert found.startswith("".join(LINES[:9])), (first, second)
