"""Files of tagged words: what is read, and which line an error names."""

import gzip

import pytest
from analysis_configs import config

from electra_tf.analysis.examples import tagged_sentences

CONLLU = """\
# text = Don't go.
1-2\tDon't\t_\t_\t_
1\tDo\tdo\tAUX\tVBP
2\tn't\tnot\tPART\tRB
3\tgo\tgo\tVERB\tVB

1\tNo\tno\tINTJ\tUH
"""
CHUNKS = "He PRP B-NP\nruns VBZ B-VP\n\nWell UH B-INTJ\n"


def test_the_file_ending_tells_the_kind_of_tags(tmp_path):
    (tmp_path / "a.conllu").write_text(CONLLU)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(CHUNKS.encode()))
    assert tagged_sentences.read(config(tmp_path), "test") == [
        ("part of speech", ("Do", "n't", "go"), ("AUX", "PART", "VERB")),
        ("part of speech", ("No",), ("INTJ",)),
        ("chunk", ("He", "runs"), ("B-NP", "B-VP")),
        ("chunk", ("Well",), ("B-INTJ",)),
    ]


def test_words_alone_need_no_tags(tmp_path):
    (tmp_path / "a.conllu").write_text("1\tNo\n")
    (tmp_path / "b.txt").write_text("He PRP\nruns VBZ\n\nWell\n")
    found = tagged_sentences.read_words(config(tmp_path), "test")
    assert found == [("No",), ("He", "runs"), ("Well",)]
    tagged = tmp_path / "tagged"
    tagged.mkdir()
    (tagged / "c.txt").write_text(CHUNKS)
    sentences = tagged_sentences.read(config(tagged), "test")
    found = tagged_sentences.read_words(config(tagged), "test")
    assert found == [sentence.words for sentence in sentences]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", b"He PRP B-NP\nruns VBZ\n", "a.txt, line 2: .*column 3"),
        ("a.conllu", b"1\tHe\n", "a.conllu, line 1: .*column 4"),
        ("a.txt", b"He PRP B-NP\n\xff\xff X\n", "a.txt, line 2: .*UTF-8"),
        ("a.txt", b"\n\n", "a.txt must hold examples"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path, name, content, problem):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError):
        tagged_sentences.read(config(tmp_path / name), "test")
