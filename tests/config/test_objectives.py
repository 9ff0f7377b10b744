"""Objectives are registered by name, without TensorFlow."""

import pathlib
import re

import pytest

from electra_tf.config.objective_traits import TRAITS
from electra_tf.config.objectives import ObjectiveConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
NUMBERS = (
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty"
).split()


@pytest.mark.parametrize("name", TRAITS)
def test_each_objective_is_a_class_in_a_file_of_its_name(name):
    """The source is read, as an import would load TensorFlow."""
    module, _, class_name = TRAITS[name].model.partition(":")
    path = ROOT / f"{module.replace('.', '/')}.py"
    assert path.stem == name
    assert f"class {class_name}(" in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("token_output", {"verdicts", "energies", "words", ""}),
        ("frozen_generator", {"never", "allowed", "always"}),
        ("two_towers", {"never", "allowed", "always"}),
    ],
)
def test_traits_use_all_allowed_values_and_no_other(field, values):
    assert {getattr(traits, field) for traits in TRAITS.values()} == values


def test_no_other_file_compares_the_name_of_an_objective():
    """Except configure_pretraining.py, for the original's hyperparameters."""
    names = set(TRAITS) - {"electra"}
    exceptions = ("config/objective_traits.py", "configure_pretraining.py")
    package = ROOT / "electra_tf"
    sources = [
        path
        for path in package.rglob("*.py")
        if path.parent.name != "objectives"
        and str(path.relative_to(package)) not in exceptions
    ]
    comparison = re.compile(
        rf"""objective\)? (?:==|!=|in) \(?"({"|".join(names)})"""
    )
    assert not [path for path in sources if comparison.search(path.read_text())]


def test_the_flags_page_says_how_many_objectives_there_are():
    text = (ROOT / "docs" / "flags.md").read_text("utf-8")
    others = re.search(r"`electra`, and (\w+) others", text)[1]
    assert NUMBERS.index(others) + 10 == len(TRAITS) - 1


def test_help_names_every_objective():
    text = config_flags.help_text(lambda _: None, PretrainingConfig)
    (line,) = (x for x in text.splitlines() if "--objective:" in x)
    start = text.index(line)
    shown = "".join(text[start : text.index(">", start)].split())
    names = shown.removeprefix("--objective:<").split("|")
    assert sorted(names) == sorted(TRAITS)


def test_an_unknown_objective_is_refused_with_all_names():
    with pytest.raises(UserError, match="should be one of <electra.*two_stage"):
        config_flags.parse(
            PretrainingConfig,
            ["--data_dir=x", "--model_name=y", "--objective=magic"],
        )
    with pytest.raises(UserError, match="must be one of electra, .*two_stage"):
        ObjectiveConfig(objective="magic")
