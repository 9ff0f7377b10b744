"""Objectives are registered by name, without TensorFlow."""

import pathlib
import re

import pytest
import tiny

from electra_tf.config.objectives import OBJECTIVES, ObjectiveConfig
from electra_tf.util.errors import UserError

PACKAGE = pathlib.Path(__file__).parents[2] / "electra_tf"


def test_each_objective_is_a_class_in_a_file_of_its_name():
    for name, path in OBJECTIVES.items():
        module, _, class_name = path.partition(":")
        file = PACKAGE.parent / f"{module.replace('.', '/')}.py"
        assert file.stem == name
        assert f"class {class_name}(" in file.read_text("utf-8")


def test_no_other_file_compares_the_name_of_an_objective():
    names = "|".join(OBJECTIVES.keys() - {"electra"})
    comparison = re.compile(rf"""objective\)? (?:==|!=|in) \(?"({names})\"""")
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "objectives":
            assert not comparison.search(path.read_text("utf-8")), path


def test_an_unknown_objective_is_refused():
    with pytest.raises(UserError, match="magic"):
        ObjectiveConfig(objective="magic")


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [
        ({}, (50, 2, 5)),
        ({"objective": "teams"}, (5, 2, 5)),
        ({"objective": "script"}, (1, 2, 5)),
        ({"objective": "mc_bert"}, (50, 50, 10)),
        ({"objective": "teams", "disc_weight": 7.0}, (7, 2, 5)),
        ({"objective": "mc_bert", "num_candidates": 3}, (50, 50, 3)),
    ],
)
def test_an_objective_brings_its_published_defaults(leaves, expected):
    config = tiny.config(**leaves)
    found = config.objective.disc_weight, config.selection.selection_weight
    assert (*found, config.selection.num_candidates) == expected
