"""The import order of the package, its size, and calls that it never makes."""

import ast
import functools
import graphlib
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "electra_tf"
SOURCES = sorted(PACKAGE.rglob("*.py"))
COMMANDS = sorted(
    path.stem
    for path in PACKAGE.glob("[!_]*.py")
    if "__main__" in path.read_text()
)
LAYERS = (
    "util config model checkpoint training configure data serving task script"
).split()
TASKS = ("pretrain", "finetune", "analysis")  # never import each other
CONFIGURATION = ("util", "config", "configure")
RUNS_FOREIGN_CODE = re.compile(
    r"(import|from) (pickle|marshal|shelve|dill|joblib|cloudpickle)\b"
    r"|(?<!def )(?<![\w.])(eval|exec|compile)\("
    r"|os\.(system|popen)\(|yaml\.(full_|unsafe_)?load\(|torch\.load\("
    r"|allow_pickle=True|safe_mode=False|shell=True"
    r"|enable_unsafe_deserialization"
)
# Imports inside class methods, made when they are called.
LATE = {("electra_tf.model.networks", "electra_tf.checkpoint.loading")}
BUDGET = dict(
    line.split("\t")
    for line in (ROOT / "tests" / "budget.tsv").read_text().splitlines()
    if not line.startswith("#")
)
"""Folder -> lines it may have."""


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@functools.cache
def imports_of(path):
    """Returns the modules of this package that a file imports, but for LATE."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    pairs = {(module_of(path), x) for x in names if x.startswith("electra_tf.")}
    return {name for _, name in pairs - LATE}


def layer_of(module):
    first = module.split(".")[1]
    if first.startswith("configure_"):
        return "configure"
    if first in TASKS:
        return "task"
    return first if first in LAYERS else "script"


def may_import(name, module):
    own, other = layer_of(name), layer_of(module)
    if own in ("config", "configure") and other not in CONFIGURATION:
        return False
    if own == other == "script":
        return False
    if own == other == "task":
        return name.split(".")[1] == module.split(".")[1]
    return LAYERS.index(other) <= LAYERS.index(own)


def test_imports_go_down():
    upwards = [
        f"{module_of(path)} imports {module}"
        for path in SOURCES
        for module in imports_of(path)
        if path != PACKAGE / "__init__.py"
        and not may_import(module_of(path), module)
    ]
    assert not upwards


def test_imports_have_no_cycles():
    modules = {module_of(path): path for path in SOURCES}
    graph = {
        name: {
            module if module in modules else module.rpartition(".")[0]
            for module in imports_of(path)
        }
        for name, path in modules.items()
    }
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.parametrize("folder", BUDGET)
def test_a_folder_has_at_most_its_lines(folder):
    listed = {name for name in BUDGET if name.startswith(f"{folder}/")}
    if folder == "electra_tf":  # the sum
        listed = set()
    found = 0
    for path in (ROOT / folder.split("/*")[0]).rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        is_deeper = folder.endswith("*.py") and path.parent != PACKAGE
        if not is_deeper and not name.startswith(
            tuple(f"{other}/" for other in listed)
        ):
            found += path.read_text().count("\n")
    assert found <= int(BUDGET[folder])


@pytest.mark.parametrize("script", COMMANDS)
def test_help_needs_no_tensorflow(script):
    command = ["-X", "importtime", "-m", f"electra_tf.{script}", "--help"]
    ended = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT
    )
    assert ended.returncode == 0 and "--" in ended.stdout
    imported = {line.split()[-1] for line in ended.stderr.splitlines()}
    assert "absl" in imported
    assert not imported & {"tensorflow", "keras", "tensorflow_text"}


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_nothing_is_unpickled_or_run_from_a_file(path):
    assert not RUNS_FOREIGN_CODE.search(path.read_text())
