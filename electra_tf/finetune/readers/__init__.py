"""Readers of labelled rows: tables, JSON lines, CoNLL, prepared data sets."""
