"""Files that an analysis reads, of each format."""
