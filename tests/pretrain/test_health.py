import math

import pytest

from electra_tf.pretrain import health


def _monitor(expected_start=45.0, num_warmup_steps=10, **steps):
    warnings = []
    monitor = health.HealthMonitor(
        warnings.append,
        expected_start=expected_start,
        num_warmup_steps=num_warmup_steps,
        generator_limit=0.6,
        **steps,
    )
    return monitor, warnings


def _logs(loss=10.0, disc_loss=0.2, share=0.1, sampled=0.3):
    return {
        "loss": loss,
        "disc_loss": disc_loss,
        "replaced_share": share,
        "sampled_masked_lm_accuracy": sampled,
    }


def test_entropy_equals_the_published_values():
    assert health.entropy(0.10) == pytest.approx(0.325, abs=5e-4)
    assert health.entropy(0.07) == pytest.approx(0.254, abs=5e-4)
    assert health.entropy(0.06) == pytest.approx(0.227, abs=5e-4)
    assert health.entropy(0.0) == health.entropy(1.0) == 0.0


def test_a_healthy_run_is_left_alone():
    monitor, warnings = _monitor()
    monitor.on_epoch_end(1, _logs(loss=45.2, disc_loss=math.log(2)))
    for step in range(100, 3000, 100):
        monitor.on_epoch_end(step, _logs(loss=20 - step / 300))
    assert not warnings


@pytest.mark.parametrize(
    ("steps", "values", "words"),
    [
        ([1], {"loss": 70.0}, "first loss is 70.00"),
        ([1], {"loss": 20.0}, "first loss is 20.00"),
        (
            range(100, 3000, 100),
            {"disc_loss": 0.324},
            "share of replaced tokens",
        ),
        ([2000], {"sampled": 0.7}, "70 %"),
    ],
)
def test_a_lasting_problem_is_named_once(steps, values, words):
    monitor, warnings = _monitor()
    for step in steps:
        monitor.on_epoch_end(step, _logs(**values))
    assert len(warnings) == 1 and words in warnings[0]


def test_energies_are_not_judged_by_their_loss():
    monitor, warnings = _monitor(has_energies=True)
    for step in range(100, 3000, 100):
        monitor.on_epoch_end(step, _logs(disc_loss=0.34))
    assert not warnings


def test_a_poor_discriminator_gets_no_warning_too_early():
    for step, num_warmup_steps in ((900, 10), (9000, 5000)):
        monitor, warnings = _monitor(num_warmup_steps=num_warmup_steps)
        monitor.on_epoch_end(step, _logs(disc_loss=0.324))
        assert not warnings


def test_a_generator_gets_no_warning_too_early():
    logs = {**_logs(sampled=0.9), "generator_entropy": 0.5}
    for step, num_warmup_steps in ((900, 10), (9000, 5000)):
        monitor, warnings = _monitor(num_warmup_steps=num_warmup_steps)
        monitor.on_epoch_end(step, {**logs, "masked_lm_loss": 3.0})
        assert not warnings


def test_a_single_bad_block_is_no_problem():
    monitor, warnings = _monitor()
    for step in range(100, 4000, 100):
        bad = {"loss": 20.0, "disc_loss": 0.4, "sampled": 0.9}
        monitor.on_epoch_end(step, _logs(**bad if step == 3000 else {}))
    assert not warnings


def test_a_discriminator_is_given_time_from_when_its_loss_counts():
    monitor, warnings = _monitor(late_step=5000)
    for step in range(100, 6001, 100):
        monitor.on_epoch_end(step, _logs(disc_loss=0.69))
    assert not warnings
    monitor.on_epoch_end(6100, _logs(disc_loss=0.69))
    assert len(warnings) == 1 and "share of replaced tokens" in warnings[0]


def test_a_generator_that_collapses_is_named():
    for entropy, num_warnings in ((1.0, 0), (0.5, 1)):
        monitor, warnings = _monitor()
        logs = {**_logs(), "generator_entropy": entropy, "masked_lm_loss": 3.0}
        for step in range(2000, 6000, 100):
            monitor.on_epoch_end(step, logs)
        assert len(warnings) == num_warnings
        assert all("its predictions is 0.50" in text for text in warnings)


def test_a_loss_that_goes_up_is_named():
    monitor, warnings = _monitor()
    for step in range(100, 1000, 100):
        monitor.on_epoch_end(step, _logs(loss=10.0))
    for step in range(1000, 3000, 100):
        monitor.on_epoch_end(step, _logs(loss=30.0))
    assert len(warnings) == 1 and "going up" in warnings[0]


def test_a_generator_without_a_size_of_its_own_is_not_to_be_smaller():
    monitor, warnings = _monitor(has_own_generator=False)
    for step in range(2000, 6000, 100):
        monitor.on_epoch_end(step, _logs(sampled=0.9))
    assert warnings[0].endswith("detect. Use a higher --mask_prob.")


def test_a_complaint_comes_again_after_it_cleared():
    monitor, warnings = _monitor()
    for sampled in (0.9, 0.0, 0.9):
        for step in range(2000, 6000, 100):
            monitor.on_epoch_end(step, _logs(sampled=sampled))
    assert len(warnings) == 2


def test_running_means_restart_in_a_second_stage():
    monitor, warnings = _monitor(switch_step=2000)
    for step in range(100, 2001, 100):
        monitor.on_epoch_end(step, _logs(loss=3.0))
    for step in range(2100, 3000, 100):
        monitor.on_epoch_end(step, _logs(loss=20.0, disc_loss=0.324))
    assert not warnings
    for step in range(3000, 4000, 100):
        monitor.on_epoch_end(step, _logs(loss=40.0, disc_loss=0.324))
    assert len(warnings) == 2
    assert "going up" in warnings[0] and "share of replaced" in warnings[1]


def test_the_first_stage_is_watched_to_its_end():
    monitor, warnings = _monitor(switch_step=3000)
    for step in range(100, 3001, 100):
        loss = 30.0 if step == 3000 else 10.0
        monitor.on_epoch_end(step, _logs(loss=loss, sampled=0.9))
    assert len(warnings) == 2
    assert "generator's samples" in warnings[0] and "Step 3,000" in warnings[1]


def test_a_block_with_losses_of_both_stages_is_left_out():
    monitor, warnings = _monitor(switch_step=5190)
    for step in range(200, 5001, 200):
        monitor.on_epoch_end(step, _logs(loss=4.0))
    monitor.on_epoch_end(5200, _logs(loss=5.0))
    for step in range(5400, 6200, 200):
        monitor.on_epoch_end(step, _logs(loss=24.0))
    assert not warnings
    for step in range(6200, 7200, 200):
        monitor.on_epoch_end(step, _logs(loss=48.0))
    assert "from a minimum of 24.00" in warnings[0]


def test_logs_without_a_loss_are_skipped():
    monitor, warnings = _monitor()
    monitor.on_epoch_end(1, {"skipped_updates": 1.0})
    for step in range(100, 1000, 100):
        monitor.on_epoch_end(step, _logs(loss=10.0))
        monitor.on_epoch_end(step + 50, {"skipped_updates": 50.0})
    assert not warnings


def test_trained_weights_get_no_warning_of_the_first_loss():
    monitor, warnings = _monitor(expected_start=None)
    monitor.on_epoch_end(1, _logs(loss=20.0))
    assert not warnings


def test_a_rising_negative_loss_is_named():
    monitor, warnings = _monitor()
    for step in (100, 200):
        monitor.on_epoch_end(step, _logs(loss=-2.0))
    assert not warnings
    for step in range(300, 1000, 100):
        monitor.on_epoch_end(step, _logs(loss=-1.0))
    assert warnings == [warnings[0]] and "the loss is going up" in warnings[0]
