"""Runs of analyses, their statistics, tables, plots and curves."""
