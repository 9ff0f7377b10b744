"""Files of an analysis: words and their labels, and which files are found."""

import gzip

import pytest
from tiny_analysis import config, write_lines

from electra_tf.analysis import examples, minimal_pairs, rerank
from electra_tf.util.errors import UserError

CONLLU = """\
# text = They don't go.
1\tThey\tthey\tPRON\t_
2-3\tdon't\t_\t_\t_
2\tdo\tdo\tAUX\t_
3\tn't\tnot\tPART\t_
4\tgo\tgo\tVERB\t_
4.1\tgone\tgo\tVERB\t_

1\tYes\tyes\tINTJ\t_
"""
LABELLED = "I\tc\nsaws\ti\nit\tc\n\nShe\tc\ngo\ti\n"


def _read(path):
    return examples.read_texts(config(path), "test")


def test_labels_c_and_i_mark_correct_and_incorrect_words(tmp_path):
    path = tmp_path / "fce.tsv"
    path.write_text(LABELLED)
    expected = [
        (str(path), ("I", "saws", "it"), (False, True, False), ()),
        (str(path), ("She", "go"), (False, True), ()),
    ]
    assert _read(path) == expected and _read(path)[0].text == "I saws it"


def test_syntactic_words_have_the_tags_of_conllu(tmp_path):
    path = tmp_path / "en.conllu"
    path.write_text(CONLLU)
    words, tags = ("They", "do", "n't", "go"), ("PRON", "AUX", "PART", "VERB")
    expected = [
        (str(path), words, (), tags),
        (str(path), ("Yes",), (), ("INTJ",)),
    ]
    assert _read(path) == expected
    (tmp_path / "en.txt").write_text("a DT B-NP\nplot NN I-NP\n")
    *tagged, chunks = examples.read_tagged(config(tmp_path), "test")
    assert tagged == expected and chunks.tags == ("B-NP", "I-NP")


def test_a_word_is_an_error_if_most_references_change_it(tmp_path):
    (tmp_path / "v[1].dev.src").write_text("He go home \nfine .\n")
    lines = ("goes home .", "fine"), ("went home", "Fine"), ("go home", "fine")
    for i, (first, second) in enumerate((*lines, ("gone home", "Fine"))):
        path = tmp_path / f"v[1].dev.ref{i}"
        path.write_text(f"He {first}\n{second} .\n")
    first, second = _read(tmp_path / "v[1].dev.src")
    assert first.is_error == (False, True, False)
    assert second.is_error == (False, False)  # a tie


@pytest.mark.parametrize(
    ("source", "corrected", "is_changed"),
    [
        ("I go home", "I must go home now", [0, 1, 1]),
        ("we has went out", "we have gone out", [0, 1, 1, 0]),
        ("a lot off it is", "much it is", [1, 1, 1, 0, 0]),
    ],
)
def test_edits_align_words(source, corrected, is_changed):
    found = examples.changed(source.split(), corrected.split())
    assert found == is_changed


def test_a_directory_stands_for_its_files_but_the_spellchecked(tmp_path):
    for name, text in (
        ("dev.src", "a b\n"),
        ("dev.ref0", "a c\n"),
        ("dev.spellchecked.src", "a z\n"),
        ("y.txt", "one  two\n\nthree\n"),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/y.tsv.gz").write_bytes(gzip.compress(LABELLED.encode()))
    texts = [text.text for text in _read(tmp_path)]
    assert sorted(texts) == ["I saws it", "She go", "a b", "one two", "three"]
    (named,) = _read(tmp_path / "dev.spellchecked.src")
    assert named.is_error == (False, True)


def test_max_examples_samples_each_file_by_seed_and_keeps_the_order():
    files = {"a": range(50), "b": range(50, 103)}

    def chosen(count, seed=0):
        given = config(*files, max_examples=count, seed=seed)
        return examples.read(given, "test", {"": files.get})

    samples = [chosen(5, seed) for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]
    for sample in samples:
        assert len(set(sample)) == 10 and sample == sorted(sample)
        assert sum(x < 50 for x in sample) == 5
    assert chosen(0) == chosen(60) == [*range(103)]


def test_dev_and_test_must_not_share_a_file(tmp_path):
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text(LABELLED)
    (tmp_path / "link.tsv").symlink_to(tmp_path / "a.tsv")
    a, b = (str(tmp_path / name) for name in ("a.tsv", "b.tsv"))
    for dev in (a, str(tmp_path), str(tmp_path / "link.tsv")):
        with pytest.raises(UserError, match=r"\.tsv is both"):
            examples.read_texts(config(a, dev=(dev,)), "dev")
    assert examples.read_texts(config(a, dev=(b,)), "dev")


def _read_lists(path):
    return examples.read_json(config(path), "test", rerank.parse)


def _read_pairs(path):
    return examples.read_json(config(path), "test", minimal_pairs.parse)


GOOD = '{"hypotheses": ["a", "b"], "reference": "a", "scores": [1, 2]}\n'


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("a.tsv", "I\tc\nsaws\n", _read),
        ("a.conllu", "1\tI\ti\tPP\n", _read),
        ("a.src", "x\n", _read),
        ("l.jsonl", '{"hypotheses": [], "reference": "a"}', _read_lists),
        ("l.jsonl", GOOD + GOOD.replace("1, 2", "1"), _read_lists),
        ("l.jsonl", GOOD + GOOD.replace("1, 2", "1, NaN"), _read_lists),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": " "}', _read_pairs),
    ],
)
def test_bad_files_are_refused(tmp_path, name, text, read):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError):
        read(tmp_path / name)


def test_n_best_lists_are_read_under_all_field_names(tmp_path):
    for hypotheses, reference, scores in (
        ("hypotheses", "reference", "scores"),
        ("input", "output", "am_score"),
        ("nbest", "reference", "score"),
    ):
        row = {hypotheses: ["a b", ""], reference: "a", scores: [-1, -2.5]}
        path = write_lines(tmp_path / "l.jsonl", [row])
        assert _read_lists(path) == [rerank.NBest(("a b", ""), "a", (-1, -2.5))]
