"""Checkpoints in our format, the original's and Hugging Face's."""
