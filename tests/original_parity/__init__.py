"""Repeats computations of the original code on arrays that it saved."""
