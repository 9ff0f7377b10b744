"""Text to records: splitting, packing, merging, verified reading."""
