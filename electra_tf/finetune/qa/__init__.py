"""Question answering: spans of a context."""
