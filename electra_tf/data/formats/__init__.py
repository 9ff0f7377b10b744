"""The formats of files: the text of corpora, and the rows of tasks."""
