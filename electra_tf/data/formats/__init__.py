"""File formats: the text of corpora, and the rows of tasks."""
