"""Readers of the splits of a task."""
