"""The demo corpus is English prose from the installed documentation."""

from electra_tf.data import demo_corpus

MODULE = '''"""Reads a file of the kind that the server writes.

The first line is the header, which says how many
lines there are: it is not counted.

    >>> read("a file which holds some words in it")
    this is what the program would print then.

```python
this_is_the_code = of_the_example_and_nothing_else
```
The text goes on after the code of the example.
"""

NOT_PROSE = """This string stands in an assignment, it documents nothing.
"""


def read(path, strict=True):
    r"""Returns the lines of a file, without the header."""
    # A comment is not read, although it is written in English.
    return path  # """ nor does this begin a string of any kind at all """
'''


def test_paragraphs_become_lines_once(monkeypatch, tmp_path):
    line = "This is only in the second of the two modules."
    paths = [tmp_path / "a.py", tmp_path / "b.py"]
    paths[0].write_text(MODULE)
    paths[1].write_text(f'"""{line}"""\n{MODULE}')
    monkeypatch.setattr(demo_corpus, "_sources", lambda: paths)
    monkeypatch.setattr(demo_corpus, "MIN_DOCUMENT_CHARACTERS", 1)
    assert list(demo_corpus.documents()) == [
        [
            "Reads a file of the kind that the server writes.",
            "The first line is the header, which says how many lines there "
            "are: it is not counted.",
            "The text goes on after the code of the example.",
            "Returns the lines of a file, without the header.",
        ],
        [line],
    ]
