"""Objectives are known by name before TensorFlow is, and everywhere alike."""

import pathlib
import re

import pytest

from electra_tf.config.objectives import ObjectiveConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain.objectives import OBJECTIVES
from electra_tf.util import config_flags
from electra_tf.util.config_fields import leaves
from electra_tf.util.errors import UserError

README = pathlib.Path(__file__).parents[2] / "README.md"
NUMBERS = (
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty"
).split()


def test_the_names_are_those_of_the_registry():
    leaf = next(leaves(ObjectiveConfig))
    assert leaf.field.name == "objective"
    assert sorted(leaf.field.metadata["choices"]) == sorted(OBJECTIVES)


def test_the_readme_says_how_many_objectives_there_are():
    text = README.read_text("utf-8")
    others = re.search(r"`electra`, and (\w+) others", text)[1]
    assert NUMBERS.index(others) + 10 == len(OBJECTIVES) - 1


def test_help_names_every_objective():
    text = config_flags.help_text(lambda _: None, PretrainingConfig)
    (line,) = (x for x in text.splitlines() if "--objective:" in x)
    start = text.index(line)
    shown = "".join(text[start : text.index(">", start)].split())
    names = shown.removeprefix("--objective:<").split("|")
    assert sorted(names) == sorted(OBJECTIVES)


def test_an_unknown_objective_is_refused_with_all_names():
    with pytest.raises(UserError, match="must be one of electra, .*two_stage"):
        config_flags.parse(
            PretrainingConfig,
            ["--data_dir=x", "--model_name=y", "--objective=magic"],
        )
    with pytest.raises(UserError, match="must be one of electra, .*two_stage"):
        ObjectiveConfig(objective="magic")
