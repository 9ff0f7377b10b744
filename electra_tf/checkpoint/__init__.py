"""Weights in files: ours, the original's and Hugging Face's."""
