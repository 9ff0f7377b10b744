"""Configurations made of the values of their leaves."""

from electra_tf.util import config_fields


def build(config_class, values):
    """Returns a configuration; a value of no field fails the test.

    Args:
      config_class: of the configuration.
      values: by the name of a field of any section.
    """
    names = {leaf.field.name for leaf in config_fields.leaves(config_class)}
    assert values.keys() <= names, values.keys() - names
    return config_fields.build(config_class, values)
