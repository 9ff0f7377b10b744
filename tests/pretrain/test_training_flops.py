"""What a run has cost so far, against sums written out."""

import tiny

from electra_tf.model import flops
from electra_tf.pretrain.training_flops import training_flops

LENGTH, ROWS = 16, 8  # of tiny.config


def _passes(config, length=LENGTH):
    """Returns the cost of a row to the generator and to the discriminator."""
    slots = config.masking.max_predictions_per_seq(length)
    generator = flops.Pass(
        network=config.model.generator(60),
        num_tokens=length,
        num_predictions=slots,
    )
    discriminator = flops.Pass(
        network=config.model.discriminator(60),
        num_tokens=length,
        num_decisions=length,
    )
    return generator, discriminator


def test_updates_cost_their_rows_passes():
    config = tiny.config()
    generator, discriminator = _passes(config)
    row = 2 * generator.forward() + 2 * discriminator.forward()
    for step in (0, 1, 7, 20):
        found = training_flops(config, 60, step)
        assert found == step * ROWS * row


def test_each_stage_costs_what_it_trains():
    config = tiny.config(**tiny.TWO_STAGE, generator_steps=6)
    generator, discriminator = (x.forward() for x in _passes(config))
    for step in (3, 6, 10):
        first, second = min(step, 6), max(0, step - 6)
        expected = ROWS * (
            first * 2 * generator + second * (generator + 2 * discriminator)
        )
        assert training_flops(config, 60, step) == expected


def test_each_phase_costs_its_rows():
    config = tiny.config(seq_length_phases="8:0.75:4,16:0.25")
    costs = {}
    for length in (8, 16):
        generator, discriminator = _passes(config, length)
        costs[length] = 2 * generator.forward() + 2 * discriminator.forward()
    for step in (5, 15, 18):
        early, late = min(step, 15), max(0, step - 15)
        expected = 4 * early * costs[8] + ROWS * late * costs[16]
        assert training_flops(config, 60, step) == expected
