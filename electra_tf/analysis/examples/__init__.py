"""Readers of the file formats of analyses."""
