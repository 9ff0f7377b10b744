"""Training phases are a function of the configuration."""

import pytest

from electra_tf.config import phases as phases_lib
from electra_tf.util.errors import UserError


def plan(text, num_train_steps=1000):
    return phases_lib.plan(
        text, num_train_steps=num_train_steps, batch_size=64, max_seq_length=512
    )


def test_without_phases_there_is_one_of_the_longest_rows():
    assert plan("") == (phases_lib.Phase(0, 1000, 64, 512, 512),)


def test_phases_follow_each_other_by_their_shares():
    first, second = plan("128:0.9:256,512:0.1")
    assert first == phases_lib.Phase(0, 900, 256, 128, 128)
    assert second == phases_lib.Phase(900, 1000, 64, 512, 512)


@pytest.mark.parametrize("num_steps", [3, 7, 10, 999_999])
def test_every_update_is_of_one_phase(num_steps):
    phases = plan("8:0.333333,16:0.333333,512:0.333334", num_steps)
    ends = [0, *(phase.end_step for phase in phases)]
    assert [phase.first_step for phase in phases] == ends[:-1]
    assert ends[-1] == num_steps and ends == sorted(set(ends))
    for number, phase in enumerate(phases):
        for step in (phase.first_step, phase.end_step - 1):
            assert phases_lib.phase_at(phases, step) == number
    assert phases_lib.borders(phases) == {*ends[1:-1]}


def test_the_last_phase_ends_with_the_training():
    """Shares that add up to 0.9999999 lack ten of these updates."""
    phases = plan("128:0.3333333,512:0.6666666", 10**8)
    assert phases[-1].end_step == 10**8


def test_tokens_after_a_step_are_those_of_the_remaining_updates():
    phases = plan("128:0.9:256,512:0.1")
    last = 100 * 64 * 512
    assert phases_lib.tokens_after(phases, 1000) == 0
    assert phases_lib.tokens_after(phases, 900) == last
    assert phases_lib.tokens_after(phases, 899) == last + 256 * 128
    assert phases_lib.tokens_after(phases, 0) == last + 900 * 256 * 128


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("128:0.9,512:0.2", "add up to 1. Received: 1.1"),
        ("128:0.9,512", "'512' in"),
        ("128:0.9:0,512:0.1", "LENGTH:SHARE:BATCH_SIZE"),
        ("128:0.9:8:8,512:0.1", "LENGTH:SHARE:BATCH_SIZE"),
        ("128:x,512:0.1", "128:x"),
        ("128:1.5,512:-0.5", r"SHARE in \(0, 1\]"),
        ("128:nan,512:0.1", r"SHARE in \(0, 1\]"),
    ],
)
def test_phases_that_cannot_be_read_are_refused(text, message):
    with pytest.raises(UserError, match=message):
        phases_lib.parse(text)


def test_a_phase_without_updates_is_refused():
    with pytest.raises(UserError, match="Raise --num_train_steps"):
        plan("128:0.9,512:0.1", 4)
