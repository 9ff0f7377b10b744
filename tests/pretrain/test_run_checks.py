"""Warnings before a run: an update that is too large, a warm-up too long."""

import re

import pytest
import tiny

from electra_tf.pretrain import plan_sizes, run_checks
from electra_tf.util import free_memory

SIZE = 60


def _warning(
    monkeypatch, capsys, num_bytes, *, num_workers=1, group_size=1, **leaves
):
    free = free_memory.FreeMemory(num_bytes, "the machine")
    monkeypatch.setattr(free_memory, "find", lambda: free)
    config = tiny.config(**{"train_batch_size": 4096, **leaves})
    run_checks.warn_of_memory(
        config, SIZE, num_workers=num_workers, group_size=group_size
    )
    return capsys.readouterr().err


def _needed_bytes(num_pieces=1):
    config = tiny.config(train_batch_size=4096, vocab_size=SIZE)
    return plan_sizes.memory_bytes(config, num_pieces)


@pytest.mark.promise(
    "An update that is too large for the memory: before it is tried a warning "
    "names its rows, what is there, and the flags to lower"
)
def test_an_update_that_does_not_fit_gets_a_warning_with_flags(
    monkeypatch, capsys
):
    stderr = _warning(monkeypatch, capsys, _needed_bytes(4))
    for words in (
        "4,096 rows of 16 tokens takes about",
        "the machine leaves 0.0 GiB",
        "--train_batch_size or --max_seq_length, or set --recompute or "
        "--gradient_accumulation_steps=4, which",
    ):
        assert words in stderr


def test_micro_batches_are_advised_only_if_they_make_it_fit(
    monkeypatch, capsys
):
    stderr = _warning(monkeypatch, capsys, 1000)
    assert "Lower --train_batch_size" in stderr
    assert "--gradient_accumulation_steps" not in stderr


@pytest.mark.parametrize(
    "leaves",
    [
        {"gradient_accumulation_steps": 4},
        {"gradient_accumulation_steps": 2, "num_workers": 2},
        {"recompute": True},
    ],
)
def test_an_update_that_fits_gets_no_warning(monkeypatch, capsys, leaves):
    assert not _warning(monkeypatch, capsys, _needed_bytes(4), **leaves)


@pytest.mark.parametrize(
    ("rows", "num_workers", "group_size", "steps"),
    [(96 * 40, 3, 1, 2), (4096, 1, 1024, 4), (4096, 1, 4096, None)],
)
def test_advised_micro_batches_divide_the_batch(
    monkeypatch, capsys, rows, num_workers, group_size, steps
):
    stderr = _warning(
        monkeypatch,
        capsys,
        _needed_bytes(4),
        num_workers=num_workers,
        group_size=group_size,
        train_batch_size=rows,
    )
    found = re.search(r"gradient_accumulation_steps=(\d+)", stderr)
    assert (found and int(found[1])) == steps


def test_logits_of_all_tokens_are_counted():
    config, more = (
        tiny.config(train_batch_size=4096, vocab_size=SIZE, objective=x)
        for x in ("electra", "all_tokens_mlm")
    )
    logits = 4 * 4 * 4096 * config.corpus.max_seq_length * SIZE  # bytes
    difference = plan_sizes.memory_bytes(more) - plan_sizes.memory_bytes(config)
    assert difference == pytest.approx(logits)


@pytest.mark.parametrize("objective", ["electric", "script"])
def test_logits_that_are_computed_in_blocks_are_not_counted(objective):
    sizes = (SIZE, 100 * SIZE)
    of_all_tokens = 4096 * 16 * 99 * SIZE * 4  # bytes, once
    small, large = (
        plan_sizes.memory_bytes(
            tiny.config(
                train_batch_size=4096, vocab_size=size, objective=objective
            )
        )
        for size in sizes
    )
    assert large - small < of_all_tokens


@pytest.mark.parametrize(
    ("leaves", "is_warned"),
    [
        ({"num_warmup_steps": 19}, False),
        ({"num_warmup_steps": 20}, True),
        (tiny.TWO_STAGE | {"num_warmup_steps": 9}, False),
        (tiny.TWO_STAGE | {"num_warmup_steps": 10}, True),
        (tiny.TWO_STAGE | {"num_warmup_steps": 5, "generator_steps": 15}, True),
    ],
)
def test_a_warm_up_as_long_as_a_stage_gets_a_warning(capsys, leaves, is_warned):
    run_checks.warn_of_warmup(tiny.config(num_train_steps=20, **leaves))
    assert ("--num_warmup_steps" in capsys.readouterr().err) == is_warned
