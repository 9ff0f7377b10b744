"""The machine of a benchmark and its load, from made-up texts of /proc."""

import itertools
import os

import machine
import pytest

from electra_tf.util import machine as proc
from electra_tf.util.errors import UserError

STAT = """cpu  100 20 30 9000 800 7 6 5 90 10
cpu0 50 10 15 4500 400 3 3 3 45 5
intr 1 2 3
"""


def _process(pid, parent, *ticks, name="python"):
    return f"{pid} ({name}) S {parent} {' '.join(9 * ['1'])} {' '.join(ticks)}"


def _cpu_use(clock, busy, own):
    return machine._CpuUse(clock, busy, own)


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 2)

    def use(*used):
        left = iter(used)
        monkeypatch.setattr(machine._CpuUse, "of", lambda root: next(left))

    return use


def test_busy_time_excludes_idle_and_iowait_and_counts_guests_once(
    monkeypatch,
):
    monkeypatch.setattr(machine, "_TICKS_PER_SECOND", 100)
    expected = (100 + 20 + 30 + 7 + 6 + 5) / 100
    assert machine.busy_seconds(STAT) == pytest.approx(expected)


def test_time_of_a_process_is_with_that_of_all_it_started(monkeypatch):
    monkeypatch.setattr(machine, "_TICKS_PER_SECOND", 100)
    stats = [
        _process(7, 1, "10", "20", "300", "400"),
        _process(8, 7, "1", "2", "3", "4", name="a ) S 1 (b"),
        _process(9, 8, "1000", "0", "0", "0"),
        _process(10, 1, "5555", "5", "5", "5"),  # another's
    ]
    assert machine.tree_seconds(stats, 7) == pytest.approx(17.40)
    assert machine.tree_seconds(stats, 9) == pytest.approx(10.0)
    assert machine.tree_seconds(stats, 77) == 0.0


def test_other_load_is_busy_time_that_is_not_own(two_cores):
    # 10 s of two cores: 20 s, of which 12 s were used, 11 s by us.
    two_cores(_cpu_use(100.0, 50.0, 5.0), _cpu_use(110.0, 62.0, 16.0))
    assert machine.OtherLoad().share() == pytest.approx(1 / 20)


def test_the_measured_process_is_no_other_load(monkeypatch):
    """Process 7 keeps a core busy once the first sample is taken."""
    clock = itertools.count(0.0, 10.0)

    def use(root):
        now = next(clock)
        busy = max(0.0, now - 10.0)
        return _cpu_use(now, busy, busy if root == 7 else 0.0)

    monkeypatch.setattr(machine._CpuUse, "of", use)
    monkeypatch.setattr(machine, "_SAMPLE_SECONDS", 0.0)
    quiet = machine.QuietMachine(0.0)
    assert quiet.take(lambda: "x", root=7) == "x"
    assert quiet.report()["other_load"]["repeated"] == 0


@pytest.mark.skipif(not proc.read_proc("stat"), reason="needs /proc")
def test_cpu_time_of_this_process_is_its_own():
    least = sum(os.times()[:4])
    found = machine._CpuUse.of(os.getpid())
    assert least - 0.1 <= found.own <= sum(os.times()[:4]) + 0.1
    assert found.own < found.busy


def test_a_short_turn_counts_as_a_second(two_cores):
    two_cores(_cpu_use(100.0, 50.0, 5.0), _cpu_use(100.01, 50.02, 5.0))
    assert machine.OtherLoad().share() == pytest.approx(0.01)


def test_a_share_is_clipped_to_0_and_1(two_cores):
    two_cores(_cpu_use(0.0, 0.0, 0.0), _cpu_use(1.0, 0.0, 0.1))
    assert machine.OtherLoad().share() == 0.0
    two_cores(_cpu_use(0.0, 0.0, 0.0), _cpu_use(1.0, 2.1, 0.0))
    assert machine.OtherLoad().share() == 1.0


def _shares(monkeypatch, *shares):
    monkeypatch.setattr(machine, "_SAMPLE_SECONDS", 0.0)
    left = iter(shares)

    class Load:
        def __init__(self, root=None):
            pass

        def share(self):
            return next(left)

    monkeypatch.setattr(machine, "OtherLoad", Load)


def test_a_busy_machine_is_refused_beforehand(monkeypatch):
    _shares(monkeypatch, 0.3)
    with pytest.raises(
        UserError, match=r"at most 5% .*Received: 30% before.*busy_limit=1"
    ):
        machine.QuietMachine(0.05)


def test_a_disturbed_turn_is_taken_again(monkeypatch):
    _shares(monkeypatch, 0.01, 0.2, 0.06, 0.05, 0.02)
    quiet = machine.QuietMachine(0.05)
    results = iter("abcd")
    assert quiet.take(lambda: next(results)) == "c"
    assert quiet.take(lambda: next(results)) == "d"
    assert quiet.report()["cores"] == os.cpu_count()
    assert quiet.report()["other_load"] == {
        "limit": 0.05,
        "before": 0.01,
        "most": 0.05,
        "repeated": 2,
    }


def test_five_disturbed_turns_in_a_row_are_an_error(monkeypatch):
    _shares(monkeypatch, 0.0, *4 * [0.5], 0.0, *5 * [0.5])
    quiet = machine.QuietMachine(0.05)
    turns = []
    quiet.take(lambda: turns.append(1))
    assert len(turns) == 5
    with pytest.raises(UserError, match="Received: 50% in the last of 5"):
        quiet.take(lambda: turns.append(1))
    assert len(turns) == 10


def test_unknown_load_is_not_refused(monkeypatch):
    _shares(monkeypatch, None, None)
    quiet = machine.QuietMachine(0.0)
    assert quiet.take(lambda: 3) == 3
    assert quiet.report()["other_load"]["most"] is None


@pytest.mark.parametrize("limit", [-0.1, 1.1])
def test_the_limit_is_a_share(limit):
    with pytest.raises(UserError, match=r"`busy_limit` must be in \[0, 1\]"):
        machine.QuietConfig(busy_limit=limit)


def test_the_machine_is_described(monkeypatch):
    texts = {
        "cpuinfo": "processor\t: 0\nmodel name\t: A: fast one\n"
        "cpu family\t: 6\nmodel\t\t: 167\nsiblings\t: 4\ncpu cores\t: 2\n"
        "flags\t\t: fpu avx2 amx_bf16\n\nprocessor\t: 1\nmodel\t\t: 9\n",
        "meminfo": "MemTotal:       2000000 kB\nMemAvailable:  1000000 kB\n",
        "self/status": "Name:\tpython\nVmHWM:\t  500000 kB\n",
    }
    monkeypatch.setattr(proc, "read_proc", lambda name: texts.get(name, ""))
    found = machine.describe()
    assert found["cpu"] == "A: fast one, family 6, model 167"
    assert (found["cpu_family"], found["cpu_model"]) == ("6", "167")
    assert found["instructions"] == ["avx2", "amx_bf16"]
    assert found["threads_of_a_core"] == 2
    assert (found["memory_gb"], found["free_memory_gb"]) == (2.048, 1.024)
    assert machine.has_bfloat16()
    assert machine.peak_memory_gb() == 0.512
    monkeypatch.setattr(proc, "read_proc", lambda name: "")
    assert machine.describe()["cores"] > 0
    assert not machine.has_bfloat16()
    assert machine.peak_memory_gb() > 0
