"""Configurations made of the values of their leaves."""

from electra_tf.util import flags

OPTIMIZER = {
    "weight_decay_rate": 0.2,
    "adam_beta2": 0.8,
}
"""Leaves of an optimizer, none with its default."""


def build(config_class, values):
    """Returns a configuration; a value of no field fails the test."""
    names = {leaf.field.name for leaf in flags.leaves(config_class)}
    assert values.keys() <= names, values.keys() - names
    return flags.build(config_class, values)


def of_optimizer(optimizer):
    """Returns the values of the leaves in `OPTIMIZER`."""
    config = optimizer.get_config()
    names = ("weight_decay_rate", "beta_2")
    return dict(zip(OPTIMIZER, map(config.get, names), strict=True))
