"""One update, the loop around it, and what the loop calls."""
