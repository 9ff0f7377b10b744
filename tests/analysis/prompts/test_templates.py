"""Files of templates: what is read, and which line an error names."""

import pathlib

import pytest

from electra_tf.analysis.prompts import templates as prompt_templates
from electra_tf.util.errors import UserError

ROOT = pathlib.Path(__file__).parents[3]


def read(tmp_path, text):
    path = tmp_path / "prompts.cfg"
    path.write_bytes(text.encode())
    return prompt_templates.read(str(path))


def test_a_file_has_templates_and_label_words(tmp_path):
    found = read(
        tmp_path,
        "# a comment\n\ncolumn: gold\ntemplate: {a} It was {label} .\n"
        "template: {label} : {b} {a}\nlabel 0: terrible\n"
        "label not_good:  not so good \n",
    )
    assert found.label_column == "gold"
    assert found.label_words == {"0": "terrible", "not_good": "not so good"}
    assert found.columns == ("a", "b")
    first, second = found.templates
    assert first.parts == ("", "a", " It was ", "label", " .")
    assert second.columns == ("b", "a")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("template {a} {label}", "line 1: A line must be"),
        ("template: {a}\n", r"line 1: A template must have \{label\} once"),
        ("template: {label} {label} {a}\n", "line 1: A template must have"),
        ("\ntemplate: {label}\n", "line 2: .*the name of a column"),
        ("label 0: x\nlabel 0: y\n", "line 2: .*a second one for '0'"),
        ("label 0:\n", "line 1: A line must be"),
        ("label 0: x\nlabel 1: y\n", "must have a template .*0 templates"),
        ("template: {a} {label}\nlabel 0: x\n", "words of two labels"),
    ],
)
def test_bad_lines_are_named(tmp_path, text, problem):
    with pytest.raises(UserError, match=f"(?s)prompts.cfg.*{problem}"):
        read(tmp_path, text)


def test_templates_must_name_a_file():
    with pytest.raises(UserError, match="Set --templates"):
        prompt_templates.read("")


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("configs/prompts/*.cfg")), ids=lambda x: x.stem
)
def test_the_files_that_ship_can_be_read(path):
    assert prompt_templates.read(str(path)).templates
