"""Scores of texts, by token, by word and by sentence."""
