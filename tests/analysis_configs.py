"""Configurations of analyses whose model is a fake."""

from electra_tf.config.analysis import AnalysisConfig


def config(*test, **fields):
    """Returns the configuration of an analysis of some files, or of "t"."""
    defaults = {
        "what": "rerank",
        "model": "m",
        "test": tuple(map(str, test)) or ("t",),
        "num_resamples": 100,
    }
    return AnalysisConfig(**{**defaults, **fields})
