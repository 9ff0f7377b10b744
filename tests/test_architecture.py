"""The import order, one way: util < model < configure < parts < scripts."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "electra_tf"
PARTS = ("pretrain", "finetune", "analysis")
SOURCES = sorted(PACKAGE.rglob("*.py"))


def _imported(path):
    """Yields the modules of this package that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (n for n in names if n.startswith("electra_tf."))


def _layer(module):
    """Returns the rank of a module in the import order."""
    first = module.split(".")[1]
    if first == "util":
        return 0
    if first == "model":
        return 1
    if first.startswith("configure_"):
        return 2
    return 3 if first in PARTS else 4


def _name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_imports_go_down(path):
    if path == PACKAGE / "__init__.py":
        return
    name = _name(path)
    own = _layer(name)
    for module in _imported(path):
        assert _layer(module) <= own, f"{name} imports {module}"
        assert own < 4 or _layer(module) < 4, "no script imports a script"
        if own == 3 and _layer(module) == 3:
            assert module.split(".")[1] == name.split(".")[1]


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.glob("configure_*.py")), ids=_name
)
def test_configuration_imports_only_util_and_sizes(path):
    for module in _imported(path):
        assert module.startswith(
            (
                "electra_tf.util.",
                "electra_tf.model.bert_config",
                "electra_tf.configure_",
            )
        )


def test_help_needs_no_tensorflow():
    code = (
        "import sys, electra_tf.run_pretraining as script;"
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_nothing_is_ever_unpickled(path):
    text = path.read_text()
    for word in ("pickle", "allow_pickle", "safe_mode=False"):
        assert word not in text
