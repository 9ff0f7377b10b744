"""Labelled examples: columns by name, and the line that an error names."""

import pytest
from analysis_configs import config, write_lines

from electra_tf.analysis.prompts import prompt_examples
from electra_tf.analysis.prompts.templates import Prompts, Template
from electra_tf.util.errors import UserError

TEMPLATE = Template("{sentence} {label}", ("", "sentence", " ", "label", ""))
PROMPTS = Prompts((TEMPLATE,), {"0": "bad", "1": "good"}, "gold")


def test_each_kind_of_table_gives_the_same_examples(tmp_path):
    rows = [("a film , it was", "1"), ("the plot", "0")]
    (tmp_path / "a.tsv").write_text(
        "gold\tsentence\n" + "".join(f"{y}\t{x}\n" for x, y in rows)
    )
    (tmp_path / "b.csv").write_text(
        "sentence,gold\n" + "".join(f'"{x}",{y}\n' for x, y in rows)
    )
    lines = [{"sentence": x, "gold": int(y)} for x, y in rows]
    write_lines(tmp_path / "c.jsonl", lines)
    expected = [({"sentence": x}, y) for x, y in rows]
    for name in ("a.tsv", "b.csv", "c.jsonl"):
        found = prompt_examples.read(config(tmp_path / name), "test", PROMPTS)
        assert found == expected


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("sentence\tlabel\nx\t1\n", "line 1: `gold` must be a column"),
        ("sentence\tgold\nx\t1\nx\t2\n", "line 3: .*0, 1. Received: '2'"),
        ("sentence\tgold\nx\t\n", "line 2: .*Received: None"),
        ("sentence\tgold\n \t1\n", "line 2: .*a text that is not empty"),
        ("sentence;gold\nx;1\n", "line 1: .*put commas .* its columns"),
        ("sentence\tgold\nx\n", "line 2: A row must have 2 columns"),
        ("sentence\tgold\n", "must hold examples"),
    ],
)
def test_bad_rows_are_named(tmp_path, content, problem):
    path = tmp_path / "a.tsv"
    path.write_text(content)
    with pytest.raises(UserError, match="a.tsv"):
        prompt_examples.read(config(path), "test", PROMPTS)
