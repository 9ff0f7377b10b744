"""Readers of the splits of a task, and of the inputs of a model."""
