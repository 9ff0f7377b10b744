"""Configurations made of the values of their leaves."""

from electra_tf.util import config_fields

OPTIMIZER = {
    "weight_decay_rate": 0.2,
    "adam_beta1": 0.7,
    "adam_beta2": 0.8,
    "adam_epsilon": 1e-3,
}
"""Leaves of an optimizer, none with its default."""


def build(config_class, values):
    """Returns a configuration; a value of no field fails the test.

    Args:
      config_class: of the configuration.
      values: by the name of a field of any section.
    """
    names = {leaf.field.name for leaf in config_fields.leaves(config_class)}
    assert values.keys() <= names, values.keys() - names
    return config_fields.build(config_class, values)


def of_optimizer(optimizer):
    """Returns the values of the leaves in `OPTIMIZER`."""
    config = optimizer.get_config()
    names = ("weight_decay_rate", "beta_1", "beta_2", "epsilon")
    return dict(zip(OPTIMIZER, map(config.get, names), strict=True))
