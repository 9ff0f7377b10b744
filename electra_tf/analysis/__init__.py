"""Analyses of pre-trained models, and the scores of text that they use."""
