"""The objectives: each is a class in a file here, and an entry of `TRAITS`."""

import pkgutil

from electra_tf.config.objective_traits import TRAITS
from electra_tf.pretrain.pretraining_model import PretrainingModel


def get_class(name: str) -> type[PretrainingModel]:
    """Imports the class of an objective, a key of `TRAITS`."""
    return pkgutil.resolve_name(TRAITS[name].model)
