"""Tables of parity: the worst difference of each kind, put into a page."""

import parity
import pytest
import tables
from original_parity.networks import Difference


def test_a_column_shows_the_worst_of_its_quantities():
    found = [
        Difference("disc/logits", 2e-6, is_relative=False),
        Difference("mlm/log_probs", 3e-6, is_relative=False),
        Difference("generator/attn_maps", 0.0, is_relative=False),
        Difference("after update 3", 4e-6, is_relative=True),
        Difference("after update 3, key biases", 1.0, is_relative=False),
    ]
    cells = dict(zip(parity._COLUMNS, parity._worst(found), strict=True))
    assert {k: parity._text(v) for k, v in cells.items() if v is not None} == {
        "attention": "equal",
        "logits": "3.0e-06",
        "3 updates": "4.0e-06",
    }
    assert parity._text(cells["losses"]) == "-"


def test_a_table_replaces_what_stands_between_its_marks(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("a\n<!-- x -->\nold\n<!-- end x -->\nb\n")
    text = tables.table(["name", "b"], [["1", "\\1  2"], ["long name", ""]])
    tables.publish("x", text, path)
    assert path.read_text().splitlines() == [
        "a",
        "<!-- x -->",
        "| name | b |",
        "| --- | --- |",
        "| 1 | \\1 2 |",
        "| long name | |",
        "<!-- end x -->",
        "b",
    ]
    with pytest.raises(ValueError, match="the mark <!-- y --> once"):
        tables.publish("y", text, path)
