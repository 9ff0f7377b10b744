"""A tag for every word: chunks, names, parts of speech, supertags."""
