"""An update that will not fit is told of before it ends the run."""

import re

import pytest
import tiny

from electra_tf.pretrain import memory_check, plan_sizes
from electra_tf.util import free_memory

SIZE = 60


def _warned(
    monkeypatch, capsys, num_bytes, *, num_workers=1, group_size=1, **leaves
):
    free = free_memory.FreeMemory(num_bytes, "the machine")
    monkeypatch.setattr(free_memory, "find", lambda: free)
    config = tiny.config(**{"train_batch_size": 4096, **leaves})
    memory_check.warn(
        config, SIZE, num_workers=num_workers, group_size=group_size
    )
    return capsys.readouterr().err


def _needed(num_pieces=1):
    config = tiny.config(train_batch_size=4096, vocab_size=SIZE)
    return plan_sizes.memory_bytes(config, num_pieces)


@pytest.mark.promise(
    "An update that is too large for the memory: before it is tried a warning "
    "names its rows, what is there, and the flags to lower"
)
def test_what_does_not_fit_is_told_with_the_flags_to_lower(monkeypatch, capsys):
    said = _warned(monkeypatch, capsys, _needed(4))
    for words in (
        "4,096 rows of 16 tokens takes about",
        "the machine leaves 0.0 GiB",
        "--train_batch_size or --max_seq_length, or set --recompute or "
        "--gradient_accumulation_steps=4, which",
    ):
        assert words in said


def test_what_no_micro_batch_makes_fit_is_told_without_them(
    monkeypatch, capsys
):
    said = _warned(monkeypatch, capsys, 1000)
    assert "Lower --train_batch_size" in said
    assert "--gradient_accumulation_steps" not in said


@pytest.mark.parametrize(
    "leaves",
    [
        {"gradient_accumulation_steps": 4},
        {"gradient_accumulation_steps": 2, "num_workers": 2},
        {"recompute": True},
    ],
)
def test_nothing_is_said_where_it_fits(monkeypatch, capsys, leaves):
    assert not _warned(monkeypatch, capsys, _needed(4), **leaves)


@pytest.mark.parametrize(
    ("rows", "num_workers", "group_size", "steps"),
    [(96 * 40, 3, 1, 2), (4096, 1, 1024, 4), (4096, 1, 4096, None)],
)
def test_what_is_advised_can_be_shared_out(
    monkeypatch, capsys, rows, num_workers, group_size, steps
):
    said = _warned(
        monkeypatch,
        capsys,
        _needed(4),
        num_workers=num_workers,
        group_size=group_size,
        train_batch_size=rows,
    )
    found = re.search(r"gradient_accumulation_steps=(\d+)", said)
    assert (found and int(found[1])) == steps


def test_logits_of_all_tokens_are_counted():
    config, more = (
        tiny.config(train_batch_size=4096, vocab_size=SIZE, objective=x)
        for x in ("electra", "all_tokens_mlm")
    )
    logits = 4 * 4 * 4096 * config.corpus.max_seq_length * SIZE  # bytes
    grown = plan_sizes.memory_bytes(more) - plan_sizes.memory_bytes(config)
    assert grown == pytest.approx(logits)
