"""One training update, the training loop, and its callbacks."""
