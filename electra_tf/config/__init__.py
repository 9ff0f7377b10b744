"""The parts of the configurations, one concern a file; needs no TensorFlow."""
