import gzip

import pytest
from analysis_configs import config

from electra_tf.analysis.examples import annotated_text
from electra_tf.analysis.examples.annotated_text import edit, majority
from electra_tf.util.errors import UserError

CONLLU = """\
# sent_id = 1
# text = They don't go.
1\tThey\tthey\tPRON\t_\t_\t_\t_\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\t_\t_\t_\t_\t_\t_
3\tn't\tnot\tPART\t_\t_\t_\t_\t_\t_
4\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_
4.1\tgone\tgo\tVERB\t_\t_\t_\t_\t_\t_

1\tYes\tyes\tINTJ\t_\t_\t_\t_\t_\t_
"""
LABELLED = "I\tc\nsaws\ti\nit\tc\n\nShe\tc\ngo\ti\n"


def _write(tmp_path, **contents):
    for name, text in contents.items():
        (tmp_path / name.replace("__", ".")).write_text(text, "utf-8")
    return str(tmp_path / next(iter(contents)).replace("__", "."))


def _read(path):
    return annotated_text.read(config(path), "test")


def _write_jfleg(tmp_path, source, *references):
    references_by_name = {f"dev__ref{i}": x for i, x in enumerate(references)}
    return _write(tmp_path, dev__src=source, **references_by_name)


def test_labels_c_and_i_mark_correct_and_incorrect_words(tmp_path):
    path = _write(tmp_path, fce__tsv=LABELLED)
    first, second = _read(path)
    assert first.text == "I saws it"
    assert first.is_error == (False, True, False)
    assert second.path == path
    assert first.ends == (1, 6, 9)
    assert first.tags == ()


def test_syntactic_words_have_the_tags_of_conllu(tmp_path):
    path = _write(tmp_path, en__conllu=CONLLU)
    first, second = _read(path)
    assert first.words == ("They", "do", "n't", "go")
    assert first.tags == ("PRON", "AUX", "PART", "VERB")
    assert (second.words, second.tags) == (("Yes",), ("INTJ",))
    assert first.is_error == ()


def test_a_word_is_an_error_if_most_references_change_it(tmp_path):
    path = _write_jfleg(
        tmp_path,
        "He go home \nfine .\n",
        "He goes home .\nfine .\n",
        "He went home\nFine .\n",
        "He go home\nfine .\n",
    )
    first, second = _read(path)
    assert first.is_error == (False, True, False)
    assert first.corrections == (frozenset(), {"goes", "went"}, frozenset())
    assert second.is_error == (False, False)  # one of three
    assert second.corrections[0] == {"Fine"}


def test_an_insertion_changes_the_word_after_the_gap_or_the_last():
    found = edit(["I", "go", "home"], ["I", "must", "go", "home", "now"])
    assert found.is_changed == (False, True, True)
    assert found.corrections == (None, None, None)


def test_a_replacement_by_as_many_words_is_a_correction_of_each():
    found = edit("we has went out".split(), "we have gone out".split())
    assert found.is_changed == (False, True, True, False)
    assert found.corrections == (None, "have", "gone", None)


def test_a_replacement_of_another_length_corrects_no_word():
    found = edit("a lot off it is".split(), "much it is".split())
    assert found.is_changed == (True, True, True, False, False)
    assert found.corrections == (None,) * 5


@pytest.mark.parametrize(("votes", "expected"), [(1, 0), (2, 0), (3, 1)])
def test_a_tie_is_no_majority(votes, expected):
    changed = edit(["a"], ["b"])
    edits = [changed] * votes + [edit(["a"], ["a"])] * (4 - votes)
    assert majority(edits) == (bool(expected),)


def test_a_directory_stands_for_its_files_but_the_spellchecked(tmp_path):
    _write_jfleg(tmp_path, "a b\n", "a c\n")
    _write(tmp_path, x__conllu=CONLLU, dev__spellchecked__src="a z\n")
    (tmp_path / "y.tsv.gz").write_bytes(gzip.compress(LABELLED.encode()))
    found = _read(tmp_path)
    texts = {text.text for text in found}
    assert texts == {"a b", "They do n't go", "Yes", "I saws it", "She go"}


def test_plain_lines_have_no_labels(tmp_path):
    path = _write(tmp_path, x__txt="one  two\n\nthree\n")
    first, second = _read(path)
    assert (first.words, first.is_error) == (("one", "two"), ())
    assert second.words == ("three",)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "I\tc\nsaws\n", "line 2: .*one of c i. Received: None"),
        ("a.tsv", "I\tc\nsaws\tX\n", "line 2: .*Received: 'X'"),
        ("a.conllu", "1\tI\ti\tPP\n", "line 1: .*one of ADJ .*'PP'"),
        ("a.conllu", "1\n", "line 1: A row must have a word in column 2"),
        ("a.conllu", "1\tI\ti\n", "line 1: .*column 4 .*Received: None"),
        ("a.tsv", "\n\n", "must hold examples. Received: none"),
        ("a.bin", "x\n", "must end in .conllu, .src, .tsv, .txt"),
        ("a.src", "x\n", "must have corrections beside it, a.ref0"),
    ],
)
def test_bad_files_are_refused_by_name_and_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError) as error:
        _read(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)


def test_text_that_is_no_utf8_is_refused_by_line(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"I\tc\n\xff\ti\n")
    with pytest.raises(UserError, match="line 2:"):
        _read(tmp_path / "a.tsv")


def test_references_with_another_number_of_lines_are_refused(tmp_path):
    path = _write_jfleg(tmp_path, "a\nb\n", "a\nb\n", "a\n")
    with pytest.raises(UserError, match=r"Received: 2 lines, and 1 in .*ref1"):
        _read(path)


def test_a_correction_that_is_no_utf8_is_refused_by_its_own_file(tmp_path):
    path = _write_jfleg(tmp_path, "a\nb\n", "a\nb\n")
    (tmp_path / "dev.ref0").write_bytes(b"a\n\xff\n")
    with pytest.raises(UserError, match=r"dev\.ref0, line 2:"):
        _read(path)


@pytest.mark.parametrize(
    ("source", "reference"),
    [
        ("x[1].src", "x[1].ref0"),  # no glob pattern
        ("v1.dev.src", "v1.dev.ref0"),
        ("dev.spellchecked.src", "dev.ref0"),
        ("dev.SRC", "dev.ref0"),
    ],
)
def test_corrections_have_the_stem_of_their_file(source, reference, tmp_path):
    (tmp_path / source).write_text("a b\n")
    (tmp_path / reference).write_text("a c\n")
    (found,) = _read(tmp_path / source)
    assert found.is_error == (False, True)
