"""Prompting: classification by the scores of label words."""
