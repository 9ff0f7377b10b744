"""Helpers without knowledge of models: flags, files, errors, seeds."""
