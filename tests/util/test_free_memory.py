"""Free memory is the least of what the machine and its limits leave."""

import math

import pytest

from electra_tf.util import free_memory, machine

GIB = 2**30
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1024                 4096                 files
Max address space         {}           unlimited            bytes
"""


def _write(root, **files):
    """Writes files; in their names `__` is a slash and `_of_` a dot."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_of_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A machine with 8 GiB free, and a process of 3 GiB without limits."""
    monkeypatch.setattr(machine, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(free_memory, "_CGROUPS", tmp_path / "cgroup")
    _write(
        tmp_path,
        proc__meminfo=f"MemTotal: 99 kB\nMemAvailable:  {8 * 2**20} kB\n",
        proc__self__limits=LIMITS.format("unlimited"),
        proc__self__status=f"Name:\tpython\nVmSize:\t {3 * 2**20} kB\n",
        proc__self__cgroup="4:cpu,memory:/job/7\n1:cpu:/x\n0::/job\n",
    )
    return tmp_path


def test_the_machine_limits_where_nothing_else_does(system):
    assert free_memory.find() == (8 * GIB, "the machine")
    group = {"memory_of_max": "max\n", "memory_of_current": "5\n"}
    _write(system / "cgroup" / "job", **group)
    assert free_memory.find() == (8 * GIB, "the machine")


@pytest.mark.parametrize("place", ["job", "."])
def test_file_cache_of_a_control_group_counts_as_free(system, place):
    _write(
        system / "cgroup" / place,
        memory_of_max=f"{4 * GIB}\n",
        memory_of_current=f"{3 * GIB}\n",
        memory_of_stat=f"anon 5\nfile 7\ninactive_file {GIB}\n",
    )
    found = free_memory.find()
    assert found.num_bytes == 2 * GIB and "control group" in found.limit


@pytest.mark.parametrize("own", ["max", f"{9 * GIB}"])
def test_parent_control_groups_limit_too(system, own):
    text = "4:memory:/job/7\n0::/slice/job/7\n"
    (system / "proc/self/cgroup").write_text(text)
    limits = {"slice/job/7": own, "slice/job": f"{5 * GIB}", "slice": "max"}
    for place, limit in limits.items():
        files = {"memory_of_max": limit, "memory_of_current": f"{GIB}"}
        _write(system / "cgroup" / place, **files)
    assert free_memory.find().num_bytes == 4 * GIB


@pytest.mark.parametrize("place", ["memory/job/7", "memory"])
def test_control_groups_of_version_1_limit_too(system, place):
    _write(
        system / "cgroup" / place,
        memory_of_limit_in_bytes=f"{6 * GIB}\n",
        memory_of_usage_in_bytes=f"{GIB}\n",
    )
    assert free_memory.find().num_bytes == 5 * GIB


def test_the_address_space_limits_what_is_not_mapped_yet(system):
    text = LIMITS.format(4 * GIB)
    _write(system, proc__self__limits=text)
    assert free_memory.find() == (GIB, "`ulimit -v`")


def test_free_memory_is_infinite_on_other_systems(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_PROC", tmp_path)
    monkeypatch.setattr(free_memory, "_CGROUPS", tmp_path)
    assert free_memory.find().num_bytes == math.inf
