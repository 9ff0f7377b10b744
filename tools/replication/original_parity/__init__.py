"""Repeats computations of the original on arrays that its code left behind."""
