"""Scores of texts: token by token, word by word, of whole sentences."""
