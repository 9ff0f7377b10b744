"""Helpers without knowledge of models: flags, files, seeds, the loop."""
