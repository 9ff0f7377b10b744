import numpy as np
import pytest
from analysis_configs import config, write_lines

from electra_tf.analysis.examples import n_best
from electra_tf.analysis.examples.n_best import NBest
from electra_tf.util.errors import UserError


def _write(path, rows):
    write_lines(path, rows)
    return config(path)


@pytest.mark.parametrize(
    ("names", "scores"),
    [
        (("hypotheses", "reference", "scores"), [-1, -2.5]),
        (("input", "output", "score"), [-1.0, -2.5]),
        (("input", "output", "am_score"), [-1.0, -2.5]),
        (("nbest", "reference", None), []),
    ],
)
def test_n_best_lists_are_read_under_all_field_names(tmp_path, names, scores):
    row = {names[0]: ["a b", ""], names[1]: "a", "input1": "more"}
    if names[2]:
        row[names[2]] = scores
    given = _write(tmp_path / "l.jsonl", [row])
    assert n_best.read(given, "test") == [
        NBest(("a b", ""), "a", tuple(scores))
    ]


GOOD = {"hypotheses": ["a", "b"], "reference": "a", "scores": [1, 2]}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"reference": None}, "must have 'reference'.*'hypotheses'"),
        ({"reference": 3}, "'reference' must be a text"),
        ({"hypotheses": []}, "list of at least one text"),
        ({"hypotheses": ["a", 3]}, "at least one text"),
        ({"hypotheses": "a"}, "'hypotheses' must be a list"),
        ({"scores": [1]}, "a number for each of the 2 hypotheses"),
        ({"scores": [1, "2"]}, "a number for each"),
        ({"scores": [1, float("nan")]}, "a number for each"),
        ({"scores": [1, -(10**310)]}, "a number for each"),
        ({"scores": []}, "a number for each"),
        ({"scores": None}, r"All lists, or none.*line 1"),
    ],
)
def test_a_malformed_n_best_list_is_named_by_file_and_line(
    tmp_path, change, problem
):
    bad = {k: v for k, v in (GOOD | change).items() if v is not None}
    given = _write(tmp_path / "l.jsonl", [GOOD, bad])
    with pytest.raises(UserError, match=r"l\.jsonl, line 2"):
        n_best.read(given, "test")


def test_references_without_a_word_are_refused(tmp_path):
    given = _write(tmp_path / "l.jsonl", [GOOD | {"reference": " "}])
    with pytest.raises(UserError, match=r"must hold words.*l\.jsonl"):
        n_best.read(given, "test")


def _edit_distance(one, other):
    """Counts edits by the recursion of Wagner and Fischer."""
    if not one or not other:
        return len(one) + len(other)
    return min(
        _edit_distance(one[1:], other) + 1,
        _edit_distance(one, other[1:]) + 1,
        _edit_distance(one[1:], other[1:]) + (one[0] != other[0]),
    )


def test_errors_are_the_fewest_edits_of_words():
    random = np.random.default_rng(5)
    texts = [
        " ".join(random.choice(list("abc"), size=random.integers(6)))
        for _ in range(24)
    ]
    lists = [NBest((*texts[i : i + 3],), texts[i + 3]) for i in range(0, 24, 4)]
    lists.append(NBest(("a",), "a  b c"))
    lists.insert(0, NBest(("a\tb c", "a\u00a0b c"), "a b\u3000c"))
    found = n_best.count_errors(lists)
    for number, one in enumerate(lists):
        expected = [
            _edit_distance(one.reference.split(), text.split())
            for text in one.hypotheses
        ]
        assert [*found.num_errors[number][: len(expected)]] == expected
    assert [*found.num_words] == [len(x.reference.split()) for x in lists]
    assert found.is_valid[-1].tolist() == [True, False, False]
