"""Makes a process keep freed memory instead of returning it to the system.

The GNU C library maps each large block when it is allocated and unmaps it when
it is freed, so that every training update touches all its memory for the first
time: a page fault for each 4 KiB. `keep` prevents that. It is for processes
that train or serve, never for `import electra_tf`: a library must not decide
how its host process manages memory.

TensorFlow itself sets M_TRIM_THRESHOLD to 128 KiB when a data set is made of a
Python generator, as ours is; only M_MMAP_MAX is effective then.
"""

import ctypes

# Options of mallopt(3), and their values here.
_MALLOPT_OPTIONS = {
    -4: 0,  # M_MMAP_MAX: no block has a mapping of its own
    -1: 2**31 - 1,  # M_TRIM_THRESHOLD: the heap does not shrink
    -2: 2**28,  # M_TOP_PAD: it grows by 256 MiB, touched when needed
    -8: 1,  # M_ARENA_MAX: one heap, as others fit no block over 64 MiB
}


def keep() -> bool:
    """Makes the C library keep freed memory for the next allocation."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS, musl; Windows
        return False
    return all([mallopt(*option) == 1 for option in _MALLOPT_OPTIONS.items()])


def keep_if(is_wanted: bool) -> str:
    """Calls `keep` if `--keep_memory` is set."""
    if not is_wanted:
        return "Memory is returned to the system after each update."
    if keep():
        return (
            "Memory is kept between updates; --nokeep_memory returns it to "
            "the system."
        )
    return "Memory is managed by the C library, which has no mallopt(3)."
